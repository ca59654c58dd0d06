package mockworld

import (
	"strings"
	"testing"
)

func FuzzParsePush(f *testing.F) {
	line := zeroSHA + " " + strings.Repeat("a", 40) + " refs/heads/x\x00 report-status side-band-64k"
	f.Add([]byte(pkt(line) + "0000PACK"))
	f.Add([]byte(pkt("shallow "+zeroSHA) + "0000"))
	f.Add([]byte("0003"))
	f.Add([]byte("ffff"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		cmds, _, pack, err := parsePush(raw)
		if err != nil {
			return
		}
		if len(pack) > len(raw) {
			t.Errorf("a pack of %d bytes out of %d", len(pack), len(raw))
		}
		for _, c := range cmds {
			if strings.Contains(c.ref, "\x00") {
				t.Errorf("reference %q holds capabilities", c.ref)
			}
		}
	})
}

func FuzzDiff(f *testing.F) {
	f.Add("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@ func\n a\n-b\n+c\n\\ No newline at end of file\n", ":100644 100644 aaa bbb M\x00x\x00")
	f.Add("diff --git a/x b/x\nBinary files a/x and b/x differ\n", ":100644 100644 aaa bbb R100\x00x\x00y\x00")
	f.Add("", ":")
	f.Fuzz(func(t *testing.T, patch, raw string) {
		if got := strings.Join(splitPatch(patch), ""); got != patch {
			t.Errorf("parts make %q, want %q", got, patch)
		}
		var d diffFile
		d.read(patch)
		if n := strings.Count(patch, "\n") + 1; d.additions+d.deletions > n {
			t.Errorf("%d changed lines of %d", d.additions+d.deletions, n)
		}
		for _, file := range parseRaw([]byte(raw)) {
			if file.status == "" {
				t.Errorf("no status: %+v", file)
			}
		}
	})
}

func FuzzClosing(f *testing.F) {
	f.Add("Fixes #1, closes acme/shop#2 and resolves: #3")
	f.Add("prefixes #1")
	f.Fuzz(func(t *testing.T, body string) {
		for _, m := range closers.FindAllStringSubmatch(body, -1) {
			if !strings.Contains(body, "#"+m[2]) {
				t.Errorf("%q is not in the text", m[2])
			}
		}
	})
}
