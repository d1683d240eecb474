package simulate

import (
	"context"
	"slices"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/carry"
	"github.com/carillon-run/carillon/worker/protocol"
)

// storeLink is the store, at the other end of a link.
type storeLink struct {
	link  *link
	store carillon.Store
}

func (s storeLink) Commit(ctx context.Context, changes []carillon.Change) ([]int, error) {
	sent := make([]carillon.Change, len(changes)) // the caller can give up, and use them for something else
	for i, c := range changes {
		sent[i] = carillon.Change{
			Runs: slices.Clone(c.Runs), Guards: slices.Clone(c.Guards), Compared: slices.Clone(c.Compared),
			Retried: slices.Clone(c.Retried), Joined: c.Joined,
		}
		if c.Job != nil {
			job := *c.Job
			sent[i].Job = &job
		}
	}
	return call(ctx, s.link, func(ctx context.Context) ([]int, error) { return s.store.Commit(ctx, sent) })
}

func (s storeLink) Jobs(ctx context.Context, ids []carillon.JobVersion) ([]carillon.Job, error) {
	return call(ctx, s.link, func(ctx context.Context) ([]carillon.Job, error) {
		return s.store.Jobs(ctx, ids)
	})
}

func (s storeLink) Runs(ctx context.Context, ids []carillon.RunID, whole bool) ([]carillon.Run, error) {
	return call(ctx, s.link, func(ctx context.Context) ([]carillon.Run, error) {
		return s.store.Runs(ctx, ids, whole)
	})
}

func (s storeLink) Attempts(
	ctx context.Context, run carillon.RunID, after int32, limit int,
) ([]carillon.Attempt, error) {
	return call(ctx, s.link, func(ctx context.Context) ([]carillon.Attempt, error) {
		return s.store.Attempts(ctx, run, after, limit)
	})
}

func (s storeLink) Guards(ctx context.Context, q carillon.GuardQuery) ([]carillon.Guard, error) {
	return call(ctx, s.link, func(ctx context.Context) ([]carillon.Guard, error) {
		return s.store.Guards(ctx, q)
	})
}

func (s storeLink) Wakes(ctx context.Context, q carillon.WakeQuery) ([]carillon.Run, error) {
	return call(ctx, s.link, func(ctx context.Context) ([]carillon.Run, error) {
		return s.store.Wakes(ctx, q)
	})
}

func (s storeLink) Line(ctx context.Context, q carillon.LineQuery) ([]carillon.Run, error) {
	return call(ctx, s.link, func(ctx context.Context) ([]carillon.Run, error) {
		return s.store.Line(ctx, q)
	})
}

func (s storeLink) Holds(
	ctx context.Context, after carillon.HoldName, limit int,
) ([]carillon.HoldName, error) {
	return call(ctx, s.link, func(ctx context.Context) ([]carillon.HoldName, error) {
		return s.store.Holds(ctx, after, limit)
	})
}

func (s storeLink) Counts(
	ctx context.Context, namespace string, now carillon.Time,
) ([]carillon.QueueCount, error) {
	return call(ctx, s.link, func(ctx context.Context) ([]carillon.QueueCount, error) {
		return s.store.Counts(ctx, namespace, now)
	})
}

func (s storeLink) FindJobs(ctx context.Context, q carillon.JobQuery) (carillon.JobPage, error) {
	return call(ctx, s.link, func(ctx context.Context) (carillon.JobPage, error) {
		return s.store.FindJobs(ctx, q)
	})
}

func (s storeLink) FindRuns(ctx context.Context, q carillon.RunQuery) (carillon.RunPage, error) {
	return call(ctx, s.link, func(ctx context.Context) (carillon.RunPage, error) {
		return s.store.FindRuns(ctx, q)
	})
}

func (s storeLink) DeadGroups(
	ctx context.Context, q carillon.DeadGroupQuery,
) ([]carillon.DeadGroup, error) {
	return call(ctx, s.link, func(ctx context.Context) ([]carillon.DeadGroup, error) {
		return s.store.DeadGroups(ctx, q)
	})
}

func (s storeLink) Forget(
	ctx context.Context, rule carillon.Retention, now carillon.Time, limit int,
) (int, error) {
	return call(ctx, s.link, func(ctx context.Context) (int, error) {
		return s.store.Forget(ctx, rule, now, limit)
	})
}

// coordinatorLink is the coordinator, at the other end of a link.
type coordinatorLink struct {
	link        *link
	coordinator carillon.Coordinator
}

func (c coordinatorLink) Join(ctx context.Context, members []carillon.Member) error {
	_, err := call(ctx, c.link, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, c.coordinator.Join(ctx, members)
	})
	return err
}

func (c coordinatorLink) Beat(ctx context.Context, beats []carillon.Beat) ([]carillon.Standing, error) {
	return call(ctx, c.link, func(ctx context.Context) ([]carillon.Standing, error) {
		return c.coordinator.Beat(ctx, beats)
	})
}

func (c coordinatorLink) Leave(ctx context.Context, ids []string) error {
	_, err := call(ctx, c.link, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, c.coordinator.Leave(ctx, ids)
	})
	return err
}

func (c coordinatorLink) Members(
	ctx context.Context, q carillon.MemberQuery,
) ([]carillon.Member, carillon.Time, error) {
	type found struct {
		members []carillon.Member
		now     carillon.Time
	}
	f, err := call(ctx, c.link, func(ctx context.Context) (f found, err error) {
		f.members, f.now, err = c.coordinator.Members(ctx, q)
		return f, err
	})
	return f.members, f.now, err
}

// dispatcherLink is the dispatcher of a node, at the other end of a link.
type dispatcherLink struct {
	link       *link
	dispatcher protocol.Dispatcher
}

func (d dispatcherLink) Register(ctx context.Context, r protocol.Registration) (string, error) {
	return call(ctx, d.link, func(ctx context.Context) (string, error) {
		return d.dispatcher.Register(ctx, r)
	})
}

func (d dispatcherLink) Pull(ctx context.Context, p protocol.Pull) ([]protocol.Task, error) {
	return call(ctx, d.link, func(ctx context.Context) ([]protocol.Task, error) {
		return d.dispatcher.Pull(ctx, p)
	})
}

func (d dispatcherLink) Report(
	ctx context.Context, worker string, reports []protocol.Report,
) ([]protocol.Receipt, error) {
	reports = slices.Clone(reports)
	return call(ctx, d.link, func(ctx context.Context) ([]protocol.Receipt, error) {
		return d.dispatcher.Report(ctx, worker, reports)
	})
}

func (d dispatcherLink) Beat(ctx context.Context, b carillon.Beat) (protocol.Orders, error) {
	return call(ctx, d.link, func(ctx context.Context) (protocol.Orders, error) {
		return d.dispatcher.Beat(ctx, b)
	})
}

func (d dispatcherLink) Leave(ctx context.Context, worker string) error {
	_, err := call(ctx, d.link, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, d.dispatcher.Leave(ctx, worker)
	})
	return err
}

// carrierLink brings the due runs that another node can spare.
type carrierLink struct {
	link *link
	from *node
}

func (c carrierLink) Fetch(ctx context.Context, want carillon.Demand) ([]carillon.Run, error) {
	return call(ctx, c.link, func(ctx context.Context) ([]carillon.Run, error) {
		return carry.Give(ctx, c.from.queue, want, c.from.scheduler.Redecide)
	})
}
