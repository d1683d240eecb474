package chaos

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/client"
	"github.com/carillon-run/carillon/internal/wire"
)

// In each round many callers send the same request with the same key to all nodes until it is answered, while
// one node is killed.
func TestOneKeyOfManyCallersIsOneJobAndOneAnswerThoughNodesAreKilled(t *testing.T) {
	t.Parallel()
	onOne(t, func(t *testing.T, e *engine) {
		c := newCluster(t, e.database(t), time.Minute)
		names := []string{"node-1", "node-2", "node-3"}
		c.start(names...)
		const rounds, callers = 9, 64
		rnd := random(t)
		sent := 0
		for round := range rounds {
			name := fmt.Sprint("round-", round)
			bodies := [2][]byte{keyedJobs(name, round%2 == 1), keyedJobs("other", false)}
			path := [2]string{"/v1/jobs", "/v1/jobs/batch"}[round%2]
			answers, tries := make([]string, callers), make([]int, callers)
			var all sync.WaitGroup
			for i := range answers {
				all.Go(func() { answers[i], tries[i] = c.send(path, name, bodies[0]) })
			}
			victim := names[round%len(names)]
			last(c.ctx, time.Duration(rnd.IntN(20))*time.Millisecond)
			c.nodes[victim].Kill()
			c.launch(victim)
			all.Wait()
			for i, answer := range answers {
				if answer != answers[0] {
					t.Fatalf("two answers:\n%s\n%s", answers[0], answer)
				}
				sent += tries[i]
			}
			if again, _ := c.send(path, name, bodies[0]); again != answers[0] {
				t.Errorf("later another answer:\n%s\n%s", answers[0], again)
			}
			if other, _ := c.send("/v1/jobs", name, bodies[1]); other != "422" {
				t.Errorf("another body: %s", other)
			}
			c.ready(victim)
			if jobs := c.namedJobs(name); jobs != 1+round%2*2 {
				t.Errorf("%d jobs of %s", jobs, name)
			}
		}
		t.Logf("%d rounds, %d callers, %d requests, %d kills", rounds, callers, sent, rounds)
	})
}

// keyedJobs is the body of a submit of one job, or of a batch of three.
func keyedJobs(name string, batch bool) []byte {
	def := handledJob("later", Work{})
	def.Name, def.Schedule.After = name, carillon.Duration(time.Hour)
	body, _ := wire.MarshalDefinition(&def)
	if batch {
		return wire.AppendBatch(nil, [][]byte{body, body, body})
	}
	return body
}

// send sends a request with a key until a node has answered it, and returns the answer: its body, or its
// status if it is refused.
func (c *cluster) send(path, key string, body []byte) (answer string, tries int) {
	for ; c.ctx.Err() == nil; last(c.ctx, time.Duration(rand.IntN(20))*time.Millisecond) {
		urls, token := c.where()
		ctx, cancel := context.WithTimeout(c.ctx, 5*time.Second)
		r, _ := http.NewRequestWithContext(
			ctx, http.MethodPost, urls[rand.IntN(len(urls))]+path, bytes.NewReader(body),
		)
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set(wire.IdempotencyHeader, key)
		tries++
		got, err := quick.Do(r)
		if err == nil {
			var text []byte
			text, err = io.ReadAll(got.Body)
			got.Body.Close()
			switch {
			case err != nil || got.StatusCode >= 500:
			case got.StatusCode == http.StatusCreated:
				cancel()
				return string(text), tries
			default:
				cancel()
				return fmt.Sprint(got.StatusCode), tries
			}
		}
		cancel()
	}
	return "no answer", tries
}

// namedJobs counts the jobs of a name.
func (c *cluster) namedJobs(name string) (n int) {
	c.insist(func(ctx context.Context, api *client.Client) error {
		n = 0
		for _, err := range api.Jobs(ctx, carillon.JobQuery{Name: name}) {
			if err != nil {
				return err
			}
			n++
		}
		return nil
	})
	return n
}
