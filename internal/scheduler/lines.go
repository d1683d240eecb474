package scheduler

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/await"
)

const (
	// lineBatch is how many lines are looked at together. Of each line first a few runs are read: most lines
	// move by one run at a time. While all that were read can start, pages grow up to linePage.
	lineBatch   = 64
	firstInLine = 8
	linePage    = 1000
	// maxLined bounds the runs that wait to be put in their lines. Sweep finds those above it.
	maxLined = 10_000
	// lookAgain is after how long a line is looked at again of which runs were passed on, or found no room in
	// the queue: they may have been canceled since, or gone to another line.
	lookAgain = time.Second
	// maxPassed bounds the runs of a line that are passed on at one look.
	maxPassed = 10_000
)

// lines are the lines that have to be looked at: one of their runs may be able to start now.
type lines struct {
	ready await.Signal

	mu    sync.Mutex
	names map[carillon.HoldName]bool
	runs  []carillon.Run                  // due, and in no line yet
	later map[carillon.HoldName]time.Time // when lines are looked at without a further word
}

func newLines() *lines {
	return &lines{
		ready: await.NewSignal(), names: map[carillon.HoldName]bool{},
		later: map[carillon.HoldName]time.Time{},
	}
}

func lineOf(run *carillon.Run) carillon.HoldName {
	return carillon.HoldName{Namespace: run.Namespace, Hold: run.Hold}
}

// LookAt has lines looked at whose limits have changed.
func (s *Scheduler) LookAt(names ...carillon.HoldName) { s.lines.look(names...) }

// look has lines looked at.
func (l *lines) look(names ...carillon.HoldName) {
	if len(names) == 0 {
		return
	}
	l.mu.Lock()
	for _, name := range names {
		l.names[name] = true
	}
	l.mu.Unlock()
	l.ready.Set()
}

// add takes due runs that have a Hold. Those that cannot start at once are parked.
func (l *lines) add(runs []carillon.Run) {
	if len(runs) == 0 {
		return
	}
	l.mu.Lock()
	for i := range runs {
		l.names[lineOf(&runs[i])] = true
		if !runs[i].Parked() && len(l.runs) < maxLined {
			l.runs = append(l.runs, runs[i])
		}
	}
	l.mu.Unlock()
	l.ready.Set()
}

// lookLater has a line looked at after a time.
func (l *lines) lookLater(name carillon.HoldName, after time.Duration) {
	at := time.Now().Add(after)
	l.mu.Lock()
	defer l.mu.Unlock()
	if before, any := l.later[name]; any && !at.Before(before) {
		return
	}
	l.later[name] = at
	time.AfterFunc(after, func() {
		l.mu.Lock()
		if l.later[name].Equal(at) {
			delete(l.later, name)
		}
		l.mu.Unlock()
		l.look(name)
	})
}

func (l *lines) take() (names []carillon.HoldName, runs []carillon.Run) {
	l.mu.Lock()
	defer l.mu.Unlock()
	names, runs = slices.Collect(maps.Keys(l.names)), l.runs
	clear(l.names)
	l.runs = nil
	return names, runs
}

// moveLines looks at lines whenever something may have become free for them.
func (s *Scheduler) moveLines(ctx context.Context) error {
	for {
		select {
		case <-s.lines.ready:
		case <-ctx.Done():
			return nil
		}
		names, runs := s.lines.take()
		started := map[carillon.RunID]bool{}
		var err error
		for batch := range slices.Chunk(names, lineBatch) {
			if err = s.moveOn(ctx, batch, started); err != nil {
				break
			}
		}
		if err == nil {
			err = s.park(ctx, runs, started)
		}
		if err != nil && ctx.Err() == nil {
			s.cfg.Logger.Error("look at the runs that wait for a limit", "error", err, "lines", len(names))
			await.For(ctx, retryWait)
			s.lines.look(names...)
			s.lines.add(runs)
		}
	}
}

// moveOn passes the first runs of lines on, as many as can start now. The run keeps its place in the line
// until a worker claims it.
func (s *Scheduler) moveOn(
	ctx context.Context, names []carillon.HoldName, started map[carillon.RunID]bool,
) error {
	lines, err := s.readLines(ctx, names) // before their runs: see carillon.LimitLine.Closed
	if err != nil {
		return err
	}
	first, err := s.lineRuns(ctx, carillon.LineQuery{Lines: names, Limit: firstInLine})
	if err != nil {
		return err
	}
	var closed []carillon.Change
	for _, name := range names {
		line := lines[name]
		if len(first[name]) == 0 {
			if c, any := line.Closed(); any {
				closed = append(closed, c)
			}
			continue
		}
		if err := s.startLine(ctx, name, line, first[name], started); err != nil {
			return err
		}
	}
	_, err = s.cfg.Ledger.Commit(ctx, closed)
	return err
}

// lineRuns reads runs of lines, each as a candidate.
func (s *Scheduler) lineRuns(
	ctx context.Context, q carillon.LineQuery,
) (map[carillon.HoldName][]carillon.Candidate, error) {
	q.Until = s.cfg.Clock.Now()
	runs, err := s.cfg.Store.Line(ctx, q)
	if err != nil {
		return nil, err
	}
	candidates, err := s.cfg.Ledger.Candidates(ctx, runs, "")
	of := map[carillon.HoldName][]carillon.Candidate{}
	for _, candidate := range candidates {
		name := lineOf(&candidate.Run)
		of[name] = append(of[name], candidate)
	}
	return of, err
}

// startLine passes on runs of a line until one cannot start. While all of them can, it reads more.
func (s *Scheduler) startLine(
	ctx context.Context, name carillon.HoldName, line *carillon.LimitLine, runs []carillon.Candidate,
	started map[carillon.RunID]bool,
) error {
	for page, passed := firstInLine, 0; len(runs) > 0 && s.start(ctx, name, line, runs, started); {
		if passed += len(runs); passed > maxPassed {
			break
		}
		page = min(4*page, linePage)
		next, err := s.lineRuns(ctx, carillon.LineQuery{
			Lines: []carillon.HoldName{name}, After: runs[len(runs)-1].Run.ID, Limit: page,
		})
		if err != nil {
			return err
		}
		runs = next[name]
	}
	return nil
}

// start puts runs of a line into the queue, in order, until one cannot start, and says whether all could.
func (s *Scheduler) start(
	ctx context.Context, name carillon.HoldName, line *carillon.LimitLine, runs []carillon.Candidate,
	started map[carillon.RunID]bool,
) bool {
	now := s.cfg.Clock.Now()
	taken := map[carillon.Lane]bool{} // by some live worker
	var push []carillon.Run
	for i := range runs {
		run, lane := runs[i].Run, runs[i].Run.Lane()
		if _, known := taken[lane]; !known {
			taken[lane] = s.isTaken(lane)
		}
		// The decide loop has to say first whether the misfire policy lets it run.
		late := !run.NeedsNoDecision(now) && !run.NeedsOnlyGuard(now)
		if late || !line.Next(&runs[i], taken[lane], now) {
			break
		}
		run.Wake = min(run.Wake, run.ID.Due) // its place in the queue; a parked run has no wake
		push = append(push, run)
		started[run.ID] = true
	}
	refused, err := s.cfg.Queue.Push(ctx, push)
	if err != nil {
		s.cfg.Logger.Error("push runs of a line", "error", err, "runs", len(push))
	}
	s.lines.lookLater(name, lookAgain)
	if line.Free != 0 {
		s.lines.lookLater(name, s.cfg.Clock.Until(line.Free))
	}
	return err == nil && len(refused) == 0 && len(push) == len(runs)
}

// isTaken says whether a live worker takes the runs of a lane.
func (s *Scheduler) isTaken(lane carillon.Lane) bool {
	return slices.ContainsFunc(s.Members(), func(m carillon.Member) bool {
		return m.Kind == carillon.MemberWorker && m.Takes(lane)
	})
}

// readLines reads the guards of limits.
func (s *Scheduler) readLines(
	ctx context.Context, names []carillon.HoldName,
) (map[carillon.HoldName]*carillon.LimitLine, error) {
	lines, keys := map[carillon.HoldName]*carillon.LimitLine{}, map[string][]string{}
	for _, name := range names {
		lines[name] = carillon.LimitLineOf(name, &carillon.Guard{})
		keys[name.Namespace] = append(keys[name.Namespace], name.Hold)
	}
	for namespace, keys := range keys {
		guards, err := s.cfg.Store.Guards(ctx, carillon.GuardQuery{Namespace: namespace, Keys: keys})
		if err != nil {
			return nil, err
		}
		for i := range guards {
			name := carillon.HoldName{Namespace: namespace, Hold: guards[i].Key}
			lines[name] = carillon.LimitLineOf(name, &guards[i])
		}
	}
	return lines, nil
}

// park lets due runs wait in their lines that could not start. A run that has changed meanwhile is decided
// again.
func (s *Scheduler) park(ctx context.Context, runs []carillon.Run, started map[carillon.RunID]bool) error {
	var changes []carillon.Change
	for i := range runs {
		if !started[runs[i].ID] {
			started[runs[i].ID] = true // it may be here twice
			changes = append(changes, runs[i].Park(runs[i].Hold))
		}
	}
	lost, err := s.cfg.Ledger.Commit(ctx, changes)
	if err != nil {
		return err
	}
	for _, i := range lost {
		s.redecides.add(changes[i].Runs[0].ID)
	}
	return nil
}
