package chaos

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/client"
)

// submitAll keeps the keys busy until it is over.
func (tr *limitsTrial) submitAll(over <-chan struct{}) {
	for tr.ctx.Err() == nil {
		select {
		case <-over:
			return
		default:
		}
		if defs, _ := tr.offer(1); len(defs) == 0 { // every key has enough
			last(tr.ctx, 20*time.Millisecond)
			continue
		}
		_ = tr.ask(func(ctx context.Context, api *client.Client) error {
			defs, numbers := tr.offer(500) // others for each node: the one before may have accepted its own
			_, err := api.SubmitMany(ctx, defs)
			tr.answered(numbers, err == nil)
			return err
		})
	}
}

// offer makes up to n jobs for keys that are not busy enough. With 1 it only says whether there is one.
func (tr *limitsTrial) offer(n int) (defs []carillon.Definition, numbers []int) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	free := slices.DeleteFunc(slices.Clone(tr.keys), func(k *limitedKey) bool { return k.open >= mostOpen() })
	if n == 1 && len(free) > 0 {
		return make([]carillon.Definition, 1), nil
	}
	for len(defs) < n && len(free) > 0 {
		i := tr.rnd.IntN(len(free))
		defs, numbers = append(defs, tr.job(free[i])), append(numbers, len(tr.jobs)-1)
		if free[i].open >= mostOpen() {
			free = slices.Delete(free, i, i+1)
		}
	}
	return defs, numbers
}

// job makes a job that takes of a key.
func (tr *limitsTrial) job(key *limitedKey) carillon.Definition {
	of := limitedJob{keys: [2]*limitedKey{key, nil}}
	if key.with != "" && tr.rnd.IntN(8) == 0 {
		of.keys[1] = tr.keys[tr.rnd.IntN(16)] // one-…
		if key.with == "three-" {
			of.keys[1] = tr.keys[16+tr.rnd.IntN(16)]
		}
	}
	def := carillon.Definition{}
	def.Name, def.Type, def.Target.Handler = "taking", handled, &carillon.Handler{}
	def.Retry.MaxCrashes, def.Retry.MaxAttempts = 1000, 5
	def.Schedule.After = carillon.Duration(time.Duration(tr.rnd.IntN(300)) * time.Millisecond)
	var takes []string
	for _, k := range of.keys {
		if k == nil {
			continue
		}
		limit, text := k.Limit, k.Key
		if k.heavy && tr.rnd.IntN(4) == 0 {
			limit.Weight, text = 2, text+"*2"
		}
		def.Limits, takes = append(def.Limits, limit), append(takes, text)
		k.open++
	}
	def.Payload, _ = json.Marshal(taking{Number: len(tr.jobs), Takes: strings.Join(takes, " ")})
	tr.jobs = append(tr.jobs, of)
	return def
}

// answered notes which jobs were accepted. The others may exist or not.
func (tr *limitsTrial) answered(numbers []int, accepted bool) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for _, n := range numbers {
		switch job := &tr.jobs[n]; {
		case accepted:
			job.accepted = carillon.Now()
		case !job.done:
			job.close()
		}
	}
}

func (j *limitedJob) close() {
	j.done = true
	for _, k := range j.keys {
		if k != nil {
			k.open--
		}
	}
}
