package outage

import (
	"context"
	"time"

	"github.com/carillon-run/carillon"
)

// Store is the store, watched.
func (o *Outage) Store(s carillon.Store) carillon.Store { return &store{s, o} }

// Logs is a store of logs, watched.
func (o *Outage) Logs(l carillon.LogStore) carillon.LogStore { return &logs{l, o} }

// Coordinator is a coordinator, watched. A coordinator in memory succeeds while the store is away: do not
// watch it.
func (o *Outage) Coordinator(c carillon.Coordinator) carillon.Coordinator { return &coordinator{c, o} }

// Intake is an intake, watched; nil if there is none.
func (o *Outage) Intake(i carillon.Intake) carillon.Intake {
	if i == nil {
		return nil
	}
	return &intake{i, o}
}

type store struct {
	carillon.Store
	*Outage
}

func (s *store) Commit(ctx context.Context, changes []carillon.Change) ([]int, error) {
	turn := s.begin()
	lost, err := s.Store.Commit(ctx, changes)
	return lost, s.end(turn, write, err)
}

func (s *store) Jobs(ctx context.Context, ids []carillon.JobVersion) ([]carillon.Job, error) {
	turn := s.begin()
	jobs, err := s.Store.Jobs(ctx, ids)
	return jobs, s.end(turn, read, err)
}

func (s *store) Runs(ctx context.Context, ids []carillon.RunID, whole bool) ([]carillon.Run, error) {
	turn := s.begin()
	runs, err := s.Store.Runs(ctx, ids, whole)
	return runs, s.end(turn, read, err)
}

func (s *store) Guards(ctx context.Context, q carillon.GuardQuery) ([]carillon.Guard, error) {
	turn := s.begin()
	guards, err := s.Store.Guards(ctx, q)
	return guards, s.end(turn, read, err)
}

func (s *store) Wakes(ctx context.Context, q carillon.WakeQuery) ([]carillon.Run, error) {
	turn := s.begin()
	runs, err := s.Store.Wakes(ctx, q)
	return runs, s.end(turn, read, err)
}

func (s *store) Line(ctx context.Context, q carillon.LineQuery) ([]carillon.Run, error) {
	turn := s.begin()
	runs, err := s.Store.Line(ctx, q)
	return runs, s.end(turn, read, err)
}

func (s *store) Holds(
	ctx context.Context, after carillon.HoldName, limit int,
) ([]carillon.HoldName, error) {
	turn := s.begin()
	names, err := s.Store.Holds(ctx, after, limit)
	return names, s.end(turn, read, err)
}

func (s *store) Counts(
	ctx context.Context, namespace string, now carillon.Time,
) ([]carillon.QueueCount, error) {
	turn := s.begin()
	counts, err := s.Store.Counts(ctx, namespace, now)
	return counts, s.end(turn, search, err)
}

func (s *store) FindJobs(ctx context.Context, q carillon.JobQuery) (carillon.JobPage, error) {
	turn := s.begin()
	page, err := s.Store.FindJobs(ctx, q)
	return page, s.end(turn, search, err)
}

func (s *store) FindRuns(ctx context.Context, q carillon.RunQuery) (carillon.RunPage, error) {
	turn := s.begin()
	page, err := s.Store.FindRuns(ctx, q)
	return page, s.end(turn, search, err)
}

// Forget removes many rows at a time, and counts as a search: it can take too long by itself.
func (s *store) DeadGroups(
	ctx context.Context, q carillon.DeadGroupQuery,
) ([]carillon.DeadGroup, error) {
	turn := s.begin()
	groups, err := s.Store.DeadGroups(ctx, q)
	return groups, s.end(turn, search, err)
}

func (s *store) Forget(
	ctx context.Context, rule carillon.Retention, now carillon.Time, limit int,
) (int, error) {
	turn := s.begin()
	n, err := s.Store.Forget(ctx, rule, now, limit)
	return n, s.end(turn, search, err)
}

type logs struct {
	carillon.LogStore
	*Outage
}

func (l *logs) Append(ctx context.Context, chunks []carillon.Chunk) error {
	turn := l.begin()
	return l.end(turn, write, l.LogStore.Append(ctx, chunks))
}

func (l *logs) Read(ctx context.Context, q carillon.LogQuery) ([]carillon.Line, error) {
	turn := l.begin()
	lines, err := l.LogStore.Read(ctx, q)
	return lines, l.end(turn, search, err)
}

func (l *logs) Trim(ctx context.Context, now carillon.Time, keep time.Duration) error {
	turn := l.begin()
	return l.end(turn, search, l.LogStore.Trim(ctx, now, keep))
}

type coordinator struct {
	carillon.Coordinator
	*Outage
}

func (c *coordinator) Join(ctx context.Context, members []carillon.Member) error {
	turn := c.begin()
	return c.end(turn, write, c.Coordinator.Join(ctx, members))
}

func (c *coordinator) Beat(ctx context.Context, beats []carillon.Beat) ([]carillon.Standing, error) {
	turn := c.begin()
	standings, err := c.Coordinator.Beat(ctx, beats)
	return standings, c.end(turn, write, err)
}

func (c *coordinator) Leave(ctx context.Context, ids []string) error {
	turn := c.begin()
	return c.end(turn, write, c.Coordinator.Leave(ctx, ids))
}

func (c *coordinator) Members(
	ctx context.Context, q carillon.MemberQuery,
) ([]carillon.Member, carillon.Time, error) {
	turn := c.begin()
	members, now, err := c.Coordinator.Members(ctx, q)
	return members, now, c.end(turn, read, err)
}

type intake struct {
	carillon.Intake
	*Outage
}

// Submissions that were refused are a search for people, which can take too long by itself.
func (i *intake) Submissions(
	ctx context.Context, q carillon.SubmissionQuery,
) ([]carillon.Submission, error) {
	turn, kind := i.begin(), read
	if q.Refused {
		kind = search
	}
	found, err := i.Intake.Submissions(ctx, q)
	return found, i.end(turn, kind, err)
}

func (i *intake) Acknowledge(
	ctx context.Context, admitted []carillon.JobID, refused []carillon.Submission,
) error {
	turn := i.begin()
	return i.end(turn, write, i.Intake.Acknowledge(ctx, admitted, refused))
}
