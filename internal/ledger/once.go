package ledger

import (
	"context"

	"github.com/carillon-run/carillon"
)

// keyed is the idempotency key of a write, and its guard as it was last seen. The ledger does not read the
// guard before it writes: most keys are new. Only if a change has lost it looks whether that was because of
// the key.
type keyed struct {
	once *carillon.Once
	was  carillon.Guard // Rev 0: none was seen
}

// keyedBy returns nil for a write without an idempotency key.
func keyedBy(ctx context.Context, namespace string) *keyed {
	once := carillon.OnceOf(ctx)
	if once == nil {
		return nil
	}
	return &keyed{once: once, was: carillon.Guard{Namespace: namespace}}
}

// rev is the revision of the guard that was seen; 0 without a key.
func (k *keyed) rev() int32 {
	if k == nil {
		return 0
	}
	return k.was.Rev
}

// answer lets a change remember the answer to its request.
func (k *keyed) answer(c *carillon.Change, job *carillon.Job, run *carillon.Run, now carillon.Time) error {
	if k == nil {
		return nil
	}
	answer, err := k.once.Answer(job, run)
	if err != nil {
		return err
	}
	k.add(c, carillon.Use{At: now, Answer: answer}, now)
	return nil
}

func (k *keyed) add(c *carillon.Change, use carillon.Use, now carillon.Time) {
	// A copy: the change may share its list of guards with the snapshot that it was decided on.
	c.Guards = append(c.Guards[:len(c.Guards):len(c.Guards)], k.once.Guard(k.was, use, now))
}

// look reads the guard of a key. The error says that the key was used before: see carillon.Once.Used.
func (l *Ledger) look(ctx context.Context, k *keyed) error {
	if k == nil {
		return nil
	}
	guards, err := l.cfg.Store.Guards(ctx, carillon.GuardQuery{
		Namespace: k.was.Namespace, Keys: []string{k.once.Key()},
	})
	if err != nil {
		return err
	}
	k.was = carillon.Guard{Namespace: k.was.Namespace}
	if len(guards) == 0 {
		return nil
	}
	k.was = guards[0] // if it has expired, the next try takes it with its Rev
	return k.once.Used(&k.was, l.cfg.Clock.Now())
}

// Used says whether the idempotency key of a write was used before: see carillon.Once.Used. A caller that was
// refused asks: an earlier try, whose answer was lost, may be what the write was refused for.
func (l *Ledger) Used(ctx context.Context, namespace string) error {
	return l.look(ctx, keyedBy(ctx, namespace))
}
