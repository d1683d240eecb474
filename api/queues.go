package api

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/catalog"
	"github.com/carillon-run/carillon/internal/jobjson"
	"github.com/carillon-run/carillon/internal/wire"
)

func (s *server) queueRoutes() []route {
	return []route{
		{
			Method: "GET", Pattern: "/v1/queues",
			Summary: "List queues that have due or running runs, or are named by a setting or by a worker",
			Status:  200, Gives: wire.List[wire.Queue]{}, handle: s.listQueues,
		},
		{
			Method: "GET", Pattern: "/v1/queues/{name}",
			Summary: "Read a queue with the workers that serve it; a queue that no job names is empty",
			Status:  200, Gives: wire.QueueDetail{}, handle: s.getQueue,
		},
		{
			Method: "PUT", Pattern: "/v1/queues/{name}",
			Summary: "Set the weight of a queue, 1 to 100; 1, the default, removes the setting",
			Takes:   wire.WeightRequest{}, Status: 200, Gives: wire.QueueSettings{}, Keyed: true,
			handle: s.setQueue,
		},
	}
}

func (s *server) listQueues(w http.ResponseWriter, r *http.Request, _ *query) error {
	look, err := s.lookAtQueues(w, r)
	if err != nil {
		return err
	}
	list := wire.List[wire.Queue]{Items: []wire.Queue{}}
	for _, name := range slices.Sorted(maps.Keys(look.names())) {
		queue, _ := look.queue(name)
		list.Items = append(list.Items, queue)
	}
	return reply(w, http.StatusOK, list)
}

func (s *server) getQueue(w http.ResponseWriter, r *http.Request, _ *query) error {
	name, err := pathName(r, "name")
	if err != nil {
		return err
	}
	look, err := s.lookAtQueues(w, r)
	if err != nil {
		return err
	}
	detail := wire.QueueDetail{ServedBy: []wire.QueueWorker{}}
	var workers []*carillon.Member
	detail.Queue, workers = look.queue(name)
	for _, m := range workers {
		detail.ServedBy = append(detail.ServedBy, wire.QueueWorker{
			ID: m.ID, Name: m.Addr, Slots: m.Slots, Weight: weightFor(m, name),
		})
	}
	return reply(w, http.StatusOK, detail)
}

func (s *server) setQueue(w http.ResponseWriter, r *http.Request, _ *query) error {
	name, weight, err := weightGiven(w, r)
	if err != nil {
		return err
	}
	known, err := s.catalog()
	if err != nil {
		return err
	}
	of := catalog.Name{Namespace: namespace(r), Name: name}
	var set catalog.Record[catalog.Queue]
	return s.writeRecord(w, r, func() any {
		return wire.QueueSettings{Name: name, Weight: set.Value.Weight, SetBy: set.By, SetAt: set.At}
	}, func() error {
		_, err := catalog.Queues.Write(r.Context(), known, of, credentialOf(r).Name,
			func(_, next *catalog.Record[catalog.Queue], _ *carillon.Change) (remove bool, err error) {
				next.Value.Weight = weight
				if set = *next; weight == 1 {
					// The default needs no record. So a queue that an operator named by mistake can leave
					// the list.
					set.By, set.At = "", 0
					return true, nil
				}
				return false, nil
			})
		return err
	})
}

// weightGiven reads a request that sets the weight of a queue or a namespace.
func weightGiven(w http.ResponseWriter, r *http.Request) (name string, weight int, err error) {
	body, err := readJSON(w, r, wire.MaxBody)
	if err != nil {
		return "", 0, err
	}
	if name, err = pathName(r, "name"); err != nil {
		return "", 0, err
	}
	var given wire.WeightRequest
	if err := jobjson.Decode(body, &given); err != nil {
		return "", 0, err
	}
	want := fmt.Sprintf("a number from 1 to %d", catalog.MaxWeight)
	switch {
	case given.Weight == nil:
		return "", 0, &carillon.FieldError{Field: "weight", Want: want, Wrong: "it is missing"}
	case *given.Weight < 1 || *given.Weight > catalog.MaxWeight:
		return "", 0, invalid("weight", strconv.Itoa(*given.Weight), want)
	}
	return name, *given.Weight, nil
}

// writeRecord is write for a record of the catalog. show is called before the record is committed.
func (s *server) writeRecord(w http.ResponseWriter, r *http.Request, show func() any, do func() error) error {
	return s.write(w, r, func(*carillon.Job, *carillon.Run) outcome {
		return newOutcome(http.StatusOK, show())
	}, func() (carillon.Job, carillon.Run, error) {
		return carillon.Job{}, carillon.Run{}, do()
	})
}

// catalog is where settings are.
func (s *server) catalog() (*catalog.Catalog, error) {
	if s.Catalog == nil {
		return nil, notFound("catalog of settings on this server")
	}
	return s.Catalog, nil
}

// settings are the records that this node knows; there are none on a server without a catalog.
func (s *server) settings() *catalog.Snapshot {
	if s.Catalog == nil {
		return &catalog.Snapshot{}
	}
	return s.Catalog.Now()
}

// pathName reads a name from the path. A name that has a slash is escaped there.
func pathName(r *http.Request, parameter string) (string, error) {
	name := r.PathValue(parameter)
	if !carillon.IsName(name) {
		return "", invalid(parameter, name, carillon.NameForm)
	}
	return name, nil
}

// queueLook is what is known of the queues of a namespace.
type queueLook struct {
	namespace string
	settings  *catalog.Snapshot
	counted   counted
	members   []carillon.Member
	now       carillon.Time
}

func (s *server) lookAtQueues(w http.ResponseWriter, r *http.Request) (look queueLook, err error) {
	look = queueLook{namespace: namespace(r), settings: s.settings(), now: s.Clock.Now()}
	if look.counted, err = s.count(w, r, look.namespace); err != nil {
		return look, err
	}
	look.members, err = s.fresh(r.Context())
	return look, err
}

// names are the queues that the list shows.
func (l *queueLook) names() map[string]bool {
	names := map[string]bool{}
	for i := range l.counted.counts {
		names[l.counted.counts[i].Queue] = true
	}
	for _, r := range l.settings.Queues.All(l.namespace) {
		names[r.Name.Name] = true
	}
	for _, r := range l.settings.Gates.All(l.namespace) {
		if r.Value.ID == carillon.QueueGate(r.Value.Match.Queue) {
			names[r.Value.Match.Queue] = true
		}
	}
	for _, r := range l.settings.Limits.All(l.namespace) {
		if r.Value.Of == carillon.LimitQueue {
			names[r.Value.Key] = true
		}
	}
	for i := range l.members {
		for _, served := range l.members[i].Queues {
			name, _, _ := strings.Cut(served, "=")
			if l.serves(&l.members[i], name) {
				names[name] = true
			}
		}
	}
	return names
}

func (l *queueLook) serves(m *carillon.Member, queue string) bool {
	return m.Kind == carillon.MemberWorker && m.Serves(carillon.Lane{Namespace: l.namespace, Queue: queue})
}

// weightFor is the weight that a worker itself gives a queue; 0: none.
func weightFor(m *carillon.Member, queue string) int {
	for _, served := range m.Queues {
		if name, text, _ := strings.Cut(served, "="); name == queue {
			weight, _ := strconv.Atoi(text)
			return weight
		}
	}
	return 0
}

// queue sums up one queue.
func (l *queueLook) queue(name string) (q wire.Queue, workers []*carillon.Member) {
	q = wire.Queue{
		QueueSettings: wire.QueueSettings{Name: name, Weight: 1}, Held: []wire.HeldRuns{},
		Counted: l.counted.at,
	}
	if r := l.settings.Queues.Get(l.namespace, name); r != nil {
		q.Weight, q.SetBy, q.SetAt = r.Value.Weight, r.By, r.At
	}
	if r := l.settings.Limits.Get(l.namespace, catalog.LimitName(carillon.LimitQueue, name)); r != nil {
		limit := shownLimit(r)
		q.Limit = &limit
	}
	if r := l.settings.Gates.Get(l.namespace, carillon.QueueGate(name)); r != nil {
		gate := shownGate(&r.Value, l.counted.counts, l.now)
		q.Gate = &gate
	}
	for i := range l.counted.counts {
		if c := &l.counted.counts[i]; c.Queue == name {
			l.add(&q, c)
		}
	}
	slices.SortFunc(q.Held, func(a, b wire.HeldRuns) int { return cmp.Compare(a.By, b.By) })
	if q.OldestDue != 0 {
		q.OldestAge = carillon.Duration(max(l.now.Sub(q.OldestDue), 0))
	}
	for i := range l.members {
		if m := &l.members[i]; l.serves(m, name) {
			q.Workers, q.Slots, workers = q.Workers+1, q.Slots+m.Slots, append(workers, m)
		}
	}
	return q, workers
}

func (l *queueLook) add(q *wire.Queue, c *carillon.QueueCount) {
	switch {
	case c.State.Held():
		q.Running += c.Runs
	case c.Paused:
		q.Paused += c.Runs
	case c.Hold != "":
		by := carillon.HoldWords(c.Hold)
		q.Held = append(q.Held, wire.HeldRuns{By: by, Runs: c.Runs, OldestDue: c.Oldest})
	default:
		q.Depth += c.Runs
		if q.OldestDue == 0 || c.Oldest < q.OldestDue {
			q.OldestDue = c.Oldest
		}
	}
}
