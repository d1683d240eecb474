package porttest

import (
	"fmt"

	"github.com/carillon-run/carillon"
)

// flood pushes runs like the given one, from a job on.
func (t queueTest) flood(like carillon.Run, first, n int) {
	t.Helper()
	runs := make([]carillon.Run, n)
	for i := range runs {
		runs[i] = like
		runs[i].ID.Job = carillon.JobID(first + i)
	}
	t.push(runs...)
}

// sharing is a sample run of a share.
func sharing(share string, job int, wake carillon.Time) carillon.Run {
	r := in("q", 5, job, wake)
	r.Share = share
	return r
}

func queueShareGoesNext(t queueTest) {
	t.flood(sharing("large", 1, epoch), 1, 10_000)
	t.pull(100)
	for i := range 20 {
		small := sharing("small", 20_000+i, epoch+60_000)
		t.push(small)
		if got := idsOf(t.pull(2)); got[0] != small.ID && got[1] != small.ID {
			t.Fatalf("run %d of the small share was passed over by two of the large one", i)
		}
		t.pull(10)
	}
}

// queueTurns has lanes that are never empty, and counts how many places each gets.
func queueTurns(t queueTest) {
	of := func(queue, namespace, share string) carillon.Run {
		r := sharing(share, 0, epoch)
		r.Queue, r.Namespace = queue, namespace
		return r
	}
	// Of 1600 places each of the two queues gets a half, of those of q each of two namespaces a half, and
	// of these the shares get 1, 2 and 5 parts of 8.
	parts := []struct {
		run    carillon.Run
		places int
	}{
		{of("other", "a", ""), 800},
		{of("q", "b", ""), 400},
		{of("q", "a", "one"), 50},
		{of("q", "a", "two*2"), 100},
		{of("q", "a", "five*5"), 250},
	}
	name := func(r *carillon.Run) string { return fmt.Sprint(r.Queue, "/", r.Namespace, "/", r.Share) }
	for i, p := range parts {
		t.flood(p.run, 1+10_000*i, 6000)
	}
	for _, size := range []int{1, 7, 64} {
		got := map[string]int{}
		for taken := 0; taken < 1600; {
			for _, r := range t.pull(min(size, 1600-taken)) {
				got[name(&r)]++
				taken++
			}
		}
		for _, p := range parts {
			if n := got[name(&p.run)]; n < p.places-5 || n > p.places+5 {
				t.Errorf("pulls of %d: %s got %d of 1600 places, want %d", size, name(&p.run), n, p.places)
			}
		}
	}
}

func queueShareOfTypes(t queueTest) {
	read, send := sharing("a", 0, epoch), sharing("a", 0, epoch)
	read.Needs, send.Needs = "mail.read", "mail.send"
	t.flood(read, 1, 1000)
	t.flood(send, 2001, 1000)
	t.flood(sharing("b", 0, epoch), 4001, 1000)
	t.places(sharing("b", 0, epoch).Share, 100, 50)
}

// places pulls so many runs, and says how many of them a share must have, give or take two.
func (t queueTest) places(share string, pulled, want int) {
	t.Helper()
	got := 0
	for range pulled {
		if t.pull(1)[0].Share == share {
			got++
		}
	}
	if got < want-2 || got > want+2 {
		t.Errorf("the share %s got %d of %d places, want %d", share, got, pulled, want)
	}
}

// queueShareComesAndGoes has a third share that is empty after each run, and has the next one at once.
func queueShareComesAndGoes(t queueTest) {
	t.flood(sharing("a", 0, epoch), 1, 1000)
	t.flood(sharing("b", 0, epoch), 2001, 1000)
	job, got := 5000, map[string]int{}
	t.push(sharing("c", job, epoch))
	for range 300 {
		share := t.pull(1)[0].Share
		got[share]++
		if share == "c" {
			job++
			t.push(sharing("c", job, epoch))
		}
	}
	for _, share := range []string{"a", "b", "c"} {
		if got[share] < 97 || got[share] > 103 {
			t.Errorf("the share %s got %d of 300 places", share, got[share])
		}
	}
}

// queueShareUnserved has a share whose runs wait long for a worker that can perform them.
func queueShareUnserved(t queueTest) {
	rare := sharing("rare", 0, epoch)
	rare.Needs = "rare"
	t.flood(rare, 1, 1000)
	t.flood(sharing("a", 0, epoch), 2001, 2000)
	t.flood(sharing("b", 0, epoch), 6001, 2000)
	common := []carillon.Want{{Types: []string{sharing("a", 0, epoch).Needs}}}
	for range 1000 {
		if _, err := t.Pull(patient(t), carillon.Demand{Wants: common, Max: 1}); err != nil {
			t.Fatal(err)
		}
	}
	t.places("rare", 90, 30)
}

func queueNewShares(t queueTest) {
	old := sharing("old", 2, epoch+1)
	t.push(sharing("old", 1, epoch), old)
	for job := 10; job < 200; job += 2 {
		t.push(
			sharing(fmt.Sprint("new", job), job, epoch+carillon.Time(job)),
			sharing(fmt.Sprint("new", job+1), job+1, epoch+carillon.Time(job)),
		)
		for _, r := range t.pull(2) {
			if r.ID == old.ID {
				return
			}
		}
	}
	t.Error("190 runs of new shares went before the second run of an old one")
}

func queueSharePriority(t queueTest) {
	t.flood(sharing("a", 0, epoch), 1, 100)
	t.pull(50)
	urgent := sharing("a", 1001, epoch+1000)
	urgent.Priority = 9
	t.push(sharing("b", 1002, epoch), urgent)
	same(t, "first", t.pull(1)[0].ID, urgent.ID)
}
