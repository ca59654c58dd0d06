package sandbox

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/pipelinebot/pipelinebot/internal/command"
)

// proc is what /proc/<pid>/stat tells, see proc_pid_stat(5).
type proc struct {
	pid, parent, group int
	state              byte
	started            uint64 // clock ticks since boot: with pid, an identity
	resident           int64  // bytes, shared pages included
}

func (p proc) dead() bool { return p.state == 'Z' || p.state == 'X' }

func readProc(pid int) (proc, bool) {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return proc{}, false
	}
	return parseStat(raw)
}

// parseStat reads a stat line; the name in parentheses may hold anything, so
// fields are counted from the last closing one.
func parseStat(raw []byte) (proc, bool) {
	open, end := bytes.IndexByte(raw, '('), bytes.LastIndexByte(raw, ')')
	if open < 0 || end < open {
		return proc{}, false
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw[:open])))
	fields := strings.Fields(string(raw[end+1:]))
	if err != nil || len(fields) < 22 {
		return proc{}, false
	}
	p := proc{pid: pid, state: fields[0][0]}
	p.parent, _ = strconv.Atoi(fields[1])
	p.group, _ = strconv.Atoi(fields[2])
	p.started, _ = strconv.ParseUint(fields[19], 10, 64)
	pages, _ := strconv.ParseInt(fields[21], 10, 64)
	p.resident = pages * int64(os.Getpagesize())
	return p, true
}

func allProcs() []proc {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer closeAll([]io.Closer{dir})
	names, _ := dir.Readdirnames(-1) // what was read before a failure counts
	var list []proc
	for _, n := range names {
		if pid, err := strconv.Atoi(n); err == nil {
			if p, ok := readProc(pid); ok {
				list = append(list, p)
			}
		}
	}
	return list
}

// descendants are the living processes below root, root itself not among
// them.
func descendants(root int) []proc {
	children := map[int][]proc{}
	for _, p := range allProcs() {
		children[p.parent] = append(children[p.parent], p)
	}
	var out []proc
	for queue := []int{root}; len(queue) > 0; queue = queue[1:] {
		for _, p := range children[queue[0]] {
			queue = append(queue, p.pid)
			if !p.dead() {
				out = append(out, p)
			}
		}
	}
	return out
}

// usage says which limit the processes below root have passed, or nothing.
func usage(root int, l command.Limits) string {
	procs := descendants(root)
	if len(procs) > l.Processes {
		return fmt.Sprintf("it ran %d processes at once, at most %d are allowed", len(procs), l.Processes)
	}
	if self, ok := readProc(root); ok {
		procs = append(procs, self)
	}
	var resident int64
	for _, p := range procs {
		resident += p.resident
	}
	if resident <= l.Memory {
		return ""
	}
	// Resident sizes count shared pages once a process: look closer.
	resident = 0
	for _, p := range procs {
		resident += proportional(p)
	}
	if resident > l.Memory {
		return fmt.Sprintf("it used %d MiB of memory, at most %d MiB are allowed", resident>>20, l.Memory>>20)
	}
	return ""
}

// proportional is the process's share of the memory it maps (PSS).
func proportional(p proc) int64 {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", p.pid))
	if err != nil {
		return p.resident
	}
	for _, line := range strings.Split(string(raw), "\n") {
		if rest, ok := strings.CutPrefix(line, "Pss:"); ok {
			if kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64); err == nil {
				return kb << 10
			}
		}
	}
	return p.resident
}

// marked are the living processes whose first environment holds the marker:
// those that left their group and their parents too.
func marked(marker string) []int {
	want := []byte(markerName + "=" + marker)
	dirs, _ := filepath.Glob("/proc/[0-9]*/environ")
	var pids []int
	for _, f := range dirs {
		raw, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		for _, v := range bytes.Split(raw, []byte{0}) {
			if bytes.Equal(v, want) {
				if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(f))); err == nil && pid != os.Getpid() {
					if p, ok := readProc(pid); ok && !p.dead() {
						pids = append(pids, pid)
					}
				}
				break
			}
		}
	}
	return pids
}

func killAll(pids []int) {
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}
