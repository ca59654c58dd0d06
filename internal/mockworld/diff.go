package mockworld

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// gitCommit is a commit as git tells it.
type gitCommit struct {
	sha, tree           string
	parents             []string
	authorName          string
	authorEmail         string
	authorDate          time.Time
	committerName       string
	committerEmail      string
	committerDate       time.Time
	message             string
	added, mod, removed []string
}

// log lists at most limit commits (0: all) that the revisions reach, newest
// first.
func (g *gitRepo) log(ctx context.Context, limit int, revs ...string) ([]*gitCommit, error) {
	args := []string{"log", "-z", "--format=%H%x01%T%x01%P%x01%an%x01%ae%x01%at%x01%cn%x01%ce%x01%ct%x01%B"}
	if limit > 0 {
		args = append(args, "-n", strconv.Itoa(limit))
	}
	out, err := g.run(ctx, nil, append(args, revs...)...)
	if err != nil {
		return nil, err
	}
	var list []*gitCommit
	for rec := range strings.SplitSeq(strings.TrimRight(string(out), "\x00"), "\x00") {
		f := strings.SplitN(rec, "\x01", 10)
		if len(f) != 10 {
			continue
		}
		list = append(list, &gitCommit{
			sha: f[0], tree: f[1], parents: strings.Fields(f[2]), authorName: f[3], authorEmail: f[4], authorDate: unix(f[5]),
			committerName: f[6], committerEmail: f[7], committerDate: unix(f[8]), message: strings.TrimRight(f[9], "\n"),
		})
	}
	return list, nil
}

func unix(s string) time.Time {
	n, _ := strconv.ParseInt(s, 10, 64) // git printed it
	return time.Unix(n, 0).UTC()
}

// diff is the change between two trees.
type diff struct {
	text      []byte
	files     []*diffFile
	additions int
	deletions int
	lines     int
}

// diffFile is one file of a diff.
type diffFile struct {
	path, oldPath        string
	status               string // added, removed, modified, renamed, copied, changed
	blob                 string
	additions, deletions int
	binary               bool
	patch                string         // hunks only; "" when binary or too large
	right, left          map[int]int    // line to position in the patch
	hunks                map[int]string // new-side line to hunk header
}

// maxPatchLines is beyond which a file's patch is null, as GitHub leaves it
// out of big files.
const maxPatchLines = 3000

// maxDiffLines is beyond which the whole diff is refused with 406.
const maxDiffLines = 20_000

// between is the diff from base's merge base to head (three dots), or of two
// trees when direct.
func (g *gitRepo) between(ctx context.Context, base, head string, direct bool) (*diff, error) {
	revs := []string{base + "..." + head}
	if direct {
		revs = []string{base, head}
	}
	common := []string{"-c", "core.quotePath=false", "diff", "--no-color", "--no-ext-diff", "-M", "--full-index"}
	raw, err := g.run(ctx, nil, append(append(common[:len(common):len(common)], "--raw", "-z", "--no-abbrev"), revs...)...)
	if err != nil {
		return nil, err
	}
	text, err := g.run(ctx, nil, append(common[:len(common):len(common)], revs...)...)
	if err != nil {
		return nil, err
	}
	d := &diff{text: text, files: parseRaw(raw), lines: bytes.Count(text, []byte("\n"))}
	chunks := splitPatch(string(text))
	if len(chunks) != len(d.files) {
		return nil, fmt.Errorf("reading the diff %s: %d files, %d patches", revs[0], len(d.files), len(chunks))
	}
	for k, f := range d.files {
		f.read(chunks[k])
		d.additions += f.additions
		d.deletions += f.deletions
	}
	return d, nil
}

// parseRaw reads git diff --raw -z.
func parseRaw(raw []byte) []*diffFile {
	fields := strings.Split(strings.TrimRight(string(raw), "\x00"), "\x00")
	var files []*diffFile
	for k := 0; k+1 < len(fields); {
		meta := strings.Fields(strings.TrimPrefix(fields[k], ":"))
		if len(meta) != 5 {
			break
		}
		f := &diffFile{path: fields[k+1], blob: meta[3]}
		k += 2
		switch meta[4][0] {
		case 'A':
			f.status = "added"
		case 'D':
			f.status, f.blob = "removed", meta[2]
		case 'R', 'C':
			f.status = "renamed"
			if meta[4][0] == 'C' {
				f.status = "copied"
			}
			if k < len(fields) {
				f.oldPath, f.path = f.path, fields[k]
				k++
			}
		case 'T':
			f.status = "changed"
		default:
			f.status = "modified"
		}
		files = append(files, f)
	}
	return files
}

// splitPatch cuts a diff into the parts of its files.
func splitPatch(text string) []string {
	var chunks []string
	start, at := 0, 0
	for line := range strings.Lines(text) {
		if at > start && strings.HasPrefix(line, "diff --git ") {
			chunks = append(chunks, text[start:at])
			start = at
		}
		at += len(line)
	}
	if at > start {
		chunks = append(chunks, text[start:at])
	}
	return chunks
}

var hunkHeader = regexp.MustCompile(`^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@`)

// read takes the counts, the hunks and the commentable lines from one file's
// patch.
func (f *diffFile) read(chunk string) {
	f.right, f.left, f.hunks = map[int]int{}, map[int]int{}, map[int]string{}
	var patch strings.Builder
	oldLine, newLine, pos, lines := 0, 0, -1, 0
	header := ""
	for line := range strings.Lines(chunk) {
		var m []string
		if strings.HasPrefix(line, "@@ ") {
			m = hunkHeader.FindStringSubmatch(line)
		}
		if m != nil {
			oldLine, _ = strconv.Atoi(m[1])
			newLine, _ = strconv.Atoi(m[2])
			header = strings.TrimRight(line, "\n")
			pos++
		} else if pos < 0 {
			f.binary = f.binary || strings.HasPrefix(line, "Binary files ") || strings.HasPrefix(line, "GIT binary patch")
			continue
		} else {
			pos++
			switch line[0] {
			case '+':
				f.right[newLine], f.hunks[newLine] = pos, header
				newLine++
				f.additions++
			case '-':
				f.left[oldLine] = pos
				oldLine++
				f.deletions++
			case ' ':
				f.right[newLine], f.left[oldLine], f.hunks[newLine] = pos, pos, header
				newLine++
				oldLine++
			}
		}
		if lines++; lines <= maxPatchLines {
			patch.WriteString(line)
		}
	}
	if lines <= maxPatchLines {
		f.patch = strings.TrimRight(patch.String(), "\n")
	}
}

// pullDiff is the diff of a pull request, kept by its pair of commits.
func (w *World) pullDiff(i *issue) (*diff, error) {
	base := i.pull.baseSHA
	if b := i.repo.refs["refs/heads/"+i.pull.base]; b != "" && !i.pull.merged {
		base = b
	}
	return w.diffOf(i.repo, base, i.pull.headSHA)
}

func (w *World) diffOf(r *repository, base, head string) (*diff, error) {
	k := r.git.dir + " " + base + "..." + head
	if d := w.diffs[k]; d != nil {
		return d, nil
	}
	d, err := r.git.between(w.ctx, base, head, false)
	if err == nil {
		w.diffs[k] = d
	}
	return d, err
}

// countOf is the number of commits in a range, kept.
func (w *World) countOf(r *repository, rng string) (int, error) {
	k := r.git.dir + " " + rng
	if n, ok := w.counts[k]; ok {
		return n, nil
	}
	n, err := r.git.count(w.ctx, rng)
	if err == nil {
		w.counts[k] = n
	}
	return n, err
}
