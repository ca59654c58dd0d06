package sandbox

import (
	"bytes"
	"fmt"
	"os"
	"testing"

	"pgregory.net/rapid"
)

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("12 (a) b) c) S 1 12 12 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 777 4096 3 0"))
	f.Add([]byte("1 ("))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if p, ok := parseStat(raw); ok && p.state == 0 {
			t.Errorf("a process without a state: %+v", p)
		}
	})
}

func TestParseStat(t *testing.T) {
	t.Parallel()
	p, ok := parseStat([]byte("12 (a) b) c) S 1 11 12 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 777 4096 3 0"))
	want := proc{pid: 12, parent: 1, group: 11, state: 'S', started: 777, resident: 3 * int64(os.Getpagesize())}
	if !ok || p != want {
		t.Errorf("%+v, want %+v", p, want)
	}
	if self, ok := readProc(os.Getpid()); !ok || self.parent != os.Getppid() || self.resident == 0 {
		t.Errorf("this process: %+v", self)
	}
}

func TestHeadTail(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Int64Range(0, 300).Draw(t, "limit")
		h, whole := newHeadTail(limit), []byte(nil)
		for _, p := range rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, 200), 0, 20).Draw(t, "writes") {
			h.write(p)
			whole = append(whole, p...)
		}
		got := h.bytes()
		room := int(max(limit-markRoom, 0))
		if len(whole) <= room {
			if !bytes.Equal(got, whole) || h.dropped() != 0 {
				t.Fatalf("got %q, want all of %q", got, whole)
			}
			return
		}
		mark := fmt.Appendf(nil, "\n[… %d bytes dropped …]\n", len(whole)-room)
		want := append(append(append([]byte(nil), whole[:room/2]...), mark...), whole[len(whole)-(room-room/2):]...)
		if !bytes.Equal(got, want) || (limit >= markRoom && int64(len(got)) > limit) {
			t.Fatalf("limit %d: got %q, want %q", limit, got, want)
		}
	})
}
