package main

import (
	"testing"
	"time"
)

func TestQueuesAndLimits(t *testing.T) {
	inHouse(t, "queues", func(h *house) {
		h.carillon("queue", "list")
		h.carillon("queue", "list", "-o", "json")
		h.carillon("queue", "set", "mail", "--weight", "3")
		h.carillon("limit", "list")
		h.carillon("limit", "set", "queue", "mail", "--concurrency", "2")
		h.carillon("limit", "set", "type", "report.build", "--rate", "100/m", "--burst", "5")
		h.carillon("limit", "list")
		h.carillon("limit", "list", "-o", "yaml")
		for range 4 {
			h.run("submit", "--queue", "mail", "--", "sleep", "1m")
		}
		h.run("submit", "--queue", "bulk/slow", "--type", "other", "--after", "10s", "--", "sleep", "1m")
		h.later(12 * time.Second)
		h.carillon("queue", "list")
		h.carillon("queue", "show", "mail")
		h.carillon("queue", "show", "mail", "-o", "json")
		h.carillon("queue", "show", "bulk/slow")
		h.carillon("queue", "set", "bulk/slow", "--weight", "7", "-o", "json")
		h.carillon("limit", "set", "queue", "mail", "--concurrency", "3", "--rate", "1/s")
		h.later(2 * time.Second)
		h.carillon("queue", "list")
		h.carillon("limit", "remove", "queue", "mail")
		h.later(time.Second)
		h.carillon("queue", "list")
		h.carillon("limit", "remove", "queue", "mail")
		h.carillon("queue", "lst")
		h.carillon("queue", "show")
		h.carillon("queue", "set", "mail")
		h.carillon("queue", "set", "mail", "--weight", "0")
		h.carillon("queue", "set", "mail", "--weight", "101")
		h.carillon("queue", "set", "/mail", "--weight", "2")
		h.carillon("limit", "set", "queue", "mail")
		h.carillon("limit", "set", "queue", "mail", "--concurrency", "0")
		h.carillon("limit", "set", "queue", "mail", "--rate", "-1/s")
		h.carillon("limit", "set", "queue", "mail", "--concurrency", "1", "--burst", "2")
		h.carillon("limit", "set", "queues", "mail", "--concurrency", "1")
		h.carillon("limit", "set", "namespace", "other", "--concurrency", "1")
		h.carillon("limit", "set", "queue")
	})
}

func TestNamespaces(t *testing.T) {
	inHouse(t, "namespaces", func(h *house) {
		h.carillon("namespace", "list")
		h.carillon("namespace", "show", "default")
		h.carillon("namespace", "set", "default", "--weight", "3")
		h.carillon("limit", "set", "namespace", "default", "--concurrency", "5", "--rate", "100/m")
		h.carillon("namespaces", "list")
		h.carillon("namespace", "list", "-o", "json")
		h.carillon("namespace", "show", "default")
		h.carillon("namespace", "show", "default", "-o", "yaml")
		h.carillon("namespace", "set", "default", "--weight", "7", "-o", "json")
		h.carillon("namespace", "set", "default", "--weight", "1")
		h.carillon("namespace", "show", "default")
		h.carillon("namespace", "set", "other", "--weight", "2")
		h.carillon("namespace", "show", "other")
		h.carillon("namespace", "lst")
		h.carillon("namespace", "show")
		h.carillon("namespace", "set", "default")
		h.carillon("namespace", "set", "default", "--weight", "0")
		h.carillon("namespace", "set", "default", "--weight", "101")
		h.carillon("namespace", "set", "default", "--weight", "x")
		h.carillon("namespace", "set", "/default", "--weight", "2")
	})
}
