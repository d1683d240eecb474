package chaos

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	// moreFiles is how many more files a process can have open after a trial than before it: connections that
	// it keeps for the next request.
	moreFiles = 50
	// endTime is how long a command that was told to stop can go on, and its supervisor after it.
	endTime = 15 * time.Second
	// idleTime is longer than a node keeps connections that no caller uses, and longer than a worker that was
	// killed takes to clear up when it starts again.
	idleTime = 150 * time.Second
)

// leaks are what a trial has left behind although all runs have ended: processes of job bodies, directories
// of attempts, files that are still open.
func (tr *trial) leaks() []string {
	pooled.CloseIdleConnections()
	return append(tr.remain(endTime, tr.leftovers), tr.remain(idleTime, func() []string {
		return append(tr.scratch(), tr.moreOpen()...)
	})...)
}

// remain is what is still there after a time, if something is.
func (tr *trial) remain(within time.Duration, find func() []string) []string {
	for end := time.Now().Add(within); ; last(tr.ctx, time.Second) {
		if left := find(); len(left) == 0 || time.Now().After(end) || tr.ctx.Err() != nil {
			return left
		}
	}
}

// leftovers are the processes of job bodies of this trial that still live.
func (tr *trial) leftovers() (left []string) {
	mark := "WITNESS=" + tr.witness + "\x00"
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, name := range files {
		env, err := os.ReadFile(name)
		if err == nil && strings.Contains("\x00"+string(env), "\x00"+mark) {
			text, _ := os.ReadFile(filepath.Join(filepath.Dir(name), "status"))
			head, _, _ := strings.Cut(string(text), "\nTgid")
			left = append(left, filepath.Base(filepath.Dir(name))+" "+strings.ReplaceAll(head, "\n", ", "))
		}
	}
	return left
}

// scratch are the directories of attempts that still exist.
func (tr *trial) scratch() (left []string) {
	_ = filepath.WalkDir(tr.dir, func(path string, d fs.DirEntry, _ error) error {
		if d != nil && d.IsDir() && strings.HasPrefix(d.Name(), "carillon-") {
			left = append(left, path)
		}
		return nil
	})
	return left
}

// openFiles counts the open files of each process, by its name.
func (tr *trial) openFiles() map[string]int {
	count := map[string]int{}
	for _, v := range tr.targets {
		files, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", v.process.cmd.Process.Pid))
		count[v.name] = len(files)
	}
	return count
}

// moreOpen are the processes that have more files open than when the load began.
func (tr *trial) moreOpen() (list []string) {
	for name, now := range tr.openFiles() {
		if now > tr.files[name]+moreFiles {
			list = append(list, fmt.Sprintf("%s has %d open files, %d before", name, now, tr.files[name]))
		}
	}
	return list
}
