package chaos

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// moreFiles is how many more files a process can have open after a trial than before it: connections that
	// it keeps for the next request.
	moreFiles = 50
	// moreGoroutines is how many more goroutines a node can have: two for each of these connections.
	moreGoroutines = 2 * moreFiles
	// endTime is how long a command that was told to stop can go on, and its supervisor after it.
	endTime = 15 * time.Second
	// idleTime is longer than a node keeps connections that no caller uses, and longer than a worker that was
	// killed takes to clear up when it starts again.
	idleTime = 150 * time.Second
)

// leaks are what a trial has left behind although all runs have ended: processes of job bodies, directories
// of attempts, files that are still open, goroutines, sessions of processes that are gone.
func (tr *trial) leaks() []string {
	pooled.CloseIdleConnections()
	return append(tr.remain(endTime, tr.leftovers), tr.remain(idleTime, func() []string {
		return slices.Concat(tr.scratch(), tr.moreOpen(), tr.moreAtWork(), tr.moreSessions())
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

// baseline notes what each process has open, and each node at work, before the load begins.
func (tr *trial) baseline() {
	tr.t.Helper()
	tr.files, tr.atWork = tr.openFiles(), tr.goroutines()
	urls, _ := tr.where()
	for _, url := range urls {
		if tr.atWork[url] == 0 {
			tr.t.Fatalf("the node at %s does not say how many goroutines it has", url)
		}
	}
	for name, n := range tr.files {
		if n == 0 {
			tr.t.Fatalf("the open files of %s cannot be counted", name)
		}
	}
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

// goroutines counts those of each node that answers, by its address.
func (tr *trial) goroutines() map[string]int {
	count := map[string]int{}
	urls, token := tr.where()
	for _, url := range urls {
		if n, err := goroutinesOf(tr.ctx, url, token); err == nil {
			count[url] = n
		}
	}
	return count
}

func goroutinesOf(ctx context.Context, url, token string) (n int, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	answer, err := pooled.Do(r)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, err
	}
	_, after, _ := strings.Cut(string(text), "\ngo_goroutines ")
	_, err = fmt.Sscan(after, &n)
	return n, err
}

// moreAtWork are the nodes that have more goroutines than when the load began, or do not say how many.
func (tr *trial) moreAtWork() (list []string) {
	now := tr.goroutines()
	for url, before := range tr.atWork {
		if n, answers := now[url]; !answers || n > before+moreGoroutines {
			list = append(list, fmt.Sprintf("the node at %s has %d goroutines, %d before", url, n, before))
		}
	}
	return list
}

// moreSessions are the sessions if there are more of them than processes. The worker inside of a node has one
// of its own.
func (tr *trial) moreSessions() []string {
	ids := slices.DeleteFunc(tr.sessions(), func(id string) bool { return strings.HasPrefix(id, "inner") })
	if len(ids) > len(tr.targets) {
		return []string{fmt.Sprintf("%d processes have sessions: %s", len(tr.targets), ids)}
	}
	return nil
}
