package sandbox

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// record is kept on disk while a run lives, so that a later process finds what
// a killed one left behind. Start times tell a process from a later one of the
// same number.
type record struct {
	PID          int    `json:"pid"` // also the process group
	Started      uint64 `json:"started"`
	Owner        int    `json:"owner"`
	OwnerStarted uint64 `json:"owner_started"`
	Marker       string `json:"marker"`
}

// remember writes the record of a started job; forget removes it. A record
// that can't be written costs the sweep, not the run.
func remember(j *job) (forget func()) {
	p, ok := readProc(j.cmd.Process.Pid)
	owner, okOwner := readProc(os.Getpid())
	if !ok || !okOwner || j.pidsDir == "" {
		return func() {}
	}
	raw, err := json.Marshal(record{p.pid, p.started, owner.pid, owner.started, j.marker})
	if err != nil {
		return func() {}
	}
	file := filepath.Join(j.pidsDir, strconv.Itoa(p.pid)+"-"+j.marker+".json")
	if os.WriteFile(file, raw, 0o600) != nil {
		return func() {}
	}
	return func() { _ = os.Remove(file) }
}

// sweep kills the processes of recorded runs whose owner is gone, and counts
// them.
func sweep(dir string) int {
	files, _ := filepath.Glob(filepath.Join(dir, "*.json"))
	killed := 0
	for _, f := range files {
		raw, err := os.ReadFile(f)
		var r record
		if err != nil || json.Unmarshal(raw, &r) != nil || r.PID <= 1 || r.Marker == "" {
			_ = os.Remove(f) // half-written when its owner died
			continue
		}
		if owner, ok := readProc(r.Owner); ok && owner.started == r.OwnerStarted {
			continue
		}
		if p, ok := readProc(r.PID); ok && p.started == r.Started && !p.dead() {
			killed++
			for _, d := range descendants(r.PID) {
				killed++
				_ = syscall.Kill(d.pid, syscall.SIGKILL)
			}
			if p.group == r.PID {
				_ = syscall.Kill(-r.PID, syscall.SIGKILL)
			}
			_ = syscall.Kill(r.PID, syscall.SIGKILL)
		}
		left := marked(r.Marker)
		killed += len(left)
		if len(left) == 0 || killMarked(r.Marker) {
			_ = os.Remove(f)
		}
	}
	return killed
}
