package carry

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/carillon-run/carillon"
)

// labels are the labels that runs of other nodes are known to need. Questions leave out all other labels of
// the workers here: most labels, such as the name of a host, are for people, and a thousand workers that
// differ only in such labels want the same runs. A node that has a run which needs another label answers with
// a copy of it: see carillon.Demand.Partial.
type labels struct {
	known map[carillon.Label]bool
	list  []carillon.Label // the same, sorted; never changed in place, because questions have it
	since time.Time        // when the first of them became known
}

const (
	// maxKnown bounds the list that goes with each question. If runs need more labels, questions have all
	// labels of the workers, until what is known is forgotten.
	maxKnown = 100
	// forget is the time after which known labels are forgotten, because runs may no longer need them. To
	// learn one again takes one more question.
	forget = 10 * time.Minute
)

// cut sets what a pull asks other nodes for.
func (l *labels) cut(p *pull) {
	p.asks, p.texts, p.partial = p.Wants, nil, false
	for i := range p.Wants {
		all := p.Wants[i].Labels
		if len(all) == 0 {
			continue
		}
		if len(l.known) <= maxKnown {
			if !p.partial {
				p.asks = slices.Clone(p.Wants)
			}
			p.asks[i].Labels, p.partial = l.needed(all), true
		}
		if some := p.asks[i].Labels; len(some) > 0 {
			if p.texts == nil {
				p.texts = make([]string, len(p.Wants))
			}
			for _, key := range slices.Sorted(maps.Keys(some)) {
				p.texts[i] += key + "=" + some[key] + "\n"
			}
		}
	}
}

// needed returns those labels that are known to be needed; nil if there are none.
func (l *labels) needed(of map[string]string) (some map[string]string) {
	if len(l.known) == 0 {
		return nil
	}
	for key, value := range of {
		if l.known[carillon.Label{Key: key, Value: value}] {
			if some == nil {
				some = map[string]string{}
			}
			some[key] = value
		}
	}
	return some
}

// add says whether any of these labels was not known.
func (l *labels) add(needed []carillon.Label, now time.Time) (more bool) {
	for _, label := range needed {
		if l.known[label] {
			continue
		}
		if len(l.known) == 0 {
			l.known, l.since = map[carillon.Label]bool{}, now
		}
		l.known[label], more = true, true
	}
	if more {
		l.list = slices.SortedFunc(maps.Keys(l.known), func(a, b carillon.Label) int {
			return strings.Compare(a.Key+"="+a.Value, b.Key+"="+b.Value)
		})
	}
	return more
}

// expire says whether it has forgotten what was known.
func (l *labels) expire(now time.Time) bool {
	if len(l.known) == 0 || now.Sub(l.since) < forget {
		return false
	}
	*l = labels{}
	return true
}

// learn returns the runs that another node gave. The others are copies, which say what labels runs need.
func (q *Queue) learn(answer []carillon.Run, asked *carillon.Demand) (given []carillon.Run) {
	if !asked.Partial {
		return answer
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	more := false
	for i := range answer {
		lane := answer[i].Lane()
		if asked.Takes(lane) || !asked.Unknown(lane) {
			given = append(given, answer[i])
			continue
		}
		more = q.labels.add(lane.Labels(), time.Now()) || more
	}
	if more {
		q.cutAll()
		q.askNow()
	}
	return given
}

// cutAll sets anew what the waiting pulls ask for. The caller holds mu.
func (q *Queue) cutAll() {
	for p := range q.asking {
		q.labels.cut(p)
	}
}
