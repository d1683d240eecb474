package main

import (
	"testing"
	"time"
)

// The ids of other gates than those of queues are random.
func TestGatesAndPausedQueues(t *testing.T) {
	inHouse(t, "gates", func(h *house) {
		h.carillon("gate", "list")
		h.run("submit", "--queue", "mail", "--type", "report.daily", "--every", "1m", "--", "sleep", "10s")
		h.run("submit", "--queue", "mail", "--type", "report.once", "--", "sleep", "10s")
		h.later(2 * time.Second)
		h.carillon("gate", "close", "--type", "report.*", "--dry-run")
		h.carillon("gate", "close", "--all", "--running", "stop", "--dry-run", "-o", "json")
		h.carillon("queue", "pause", "mail", "--reason", "the relay is down", "--expires", "2h")
		h.carillon("queue", "pause", "mail")
		h.run("submit", "--queue", "mail", "--type", "report.once", "--", "sleep", "10s")
		h.later(2 * time.Second)
		h.carillon("queue", "list")
		h.carillon("queue", "show", "mail")
		h.carillon("queue", "drain", "mail")
		h.carillon("queue", "drain", "mail", "--no-wait", "--reason", "still down")
		h.later(time.Minute)
		h.carillon("gate", "list")
		h.carillon("gate", "show", "queue/mail")
		h.carillon("gate", "show", "queue/mail", "-o", "json")
		h.carillon("runs", "--state", "held")
		h.carillon("gate", "open", "queue/mail", "--rate", "1/m")
		h.later(10 * time.Second)
		h.carillon("gate", "show", "queue/mail")
		h.carillon("queue", "resume", "mail")
		h.later(30 * time.Second)
		h.carillon("gate", "list")
		h.carillon("runs")
		h.carillon("gate", "show", "queue/mail")
		h.carillon("queue", "resume", "mail")
		h.carillon("gate", "close")
		h.carillon("gate", "close", "--type", "")
		h.carillon("gate", "close", "--all", "--type", "a")
		h.carillon("gate", "close", "--label", "tier")
		h.carillon("gate", "close", "--queue", "a*")
		h.carillon("gate", "close", "--all", "--mode", "shut")
		h.carillon("gate", "close", "--all", "--running", "kill")
		h.carillon("gate", "close", "--all", "--expires", "soon")
		h.carillon("gate", "close", "--all", "--expires", "-2h")
		h.carillon("gate", "open", "queue/mail", "--rate", "fast")
		h.carillon("gate", "open", "a b")
		h.carillon("gate", "open")
		h.carillon("gate", "list", "x")
	})
}

func TestTheReleaseOfAGateIsAnOperation(t *testing.T) {
	inHouse(t, "releases", func(h *house) {
		h.run("queue", "pause", "mail", "--reason", "the relay is down")
		for range 5 {
			h.run("submit", "--queue", "mail", "--", "true")
		}
		h.later(2 * time.Second)
		h.carillon("gate", "open", "queue/mail", "--rate", "30/m", "--dry-run")
		h.carillon("queue", "resume", "mail", "--dry-run", "-o", "json")
		op := idIn(h.carillon("gate", "open", "queue/mail", "--rate", "30/m"), "op_")
		h.later(3 * time.Second)
		h.carillon("operations")
		h.carillon("operations", op)
		h.carillon("gate", "show", "queue/mail")
		h.carillon("operations", "cancel", op)
		h.later(10 * time.Second)
		h.carillon("operations", op)
		h.carillon("gate", "show", "queue/mail")
		op = idIn(h.carillon("queue", "resume", "mail"), "op_")
		h.carillon("operations", op, "--wait")
		h.carillon("operations", op, "-o", "json")
		h.carillon("operations")
		h.carillon("operations", "cancel", op)
		h.carillon("gate", "open", "queue/mail", "--dry-run")
	})
}
