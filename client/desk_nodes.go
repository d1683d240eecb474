package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/carillon-run/carillon"
)

// node is a place where the API is served.
type node struct {
	base   *url.URL
	given  bool      // by whoever set up the worker: never dropped
	failed time.Time // when it did not answer the last time
}

// remembered is how long a node that did not answer is asked only after all others: nodes may tell of addresses that
// this machine cannot reach, and each try of those costs a second.
const remembered = 10 * time.Second

// call asks one node after the other, each for so long, until one answers. That is harmless: at a desk everything may be
// said twice.
func (d *Desk) call(ctx context.Context, limit time.Duration, r request, out any) (err error) {
	nodes := d.order()
	for _, n := range nodes {
		if err = d.try(ctx, n, limit, r, out); !elsewhere(err) || ctx.Err() != nil {
			return err
		}
	}
	if len(nodes) > 1 {
		err = fmt.Errorf("no server answers, of %s; the last: %w", names(nodes), err)
	}
	return err
}

// try asks one node, and makes another one the current one if it does not answer.
func (d *Desk) try(ctx context.Context, n *node, limit time.Duration, r request, out any) error {
	c := &Client{base: n.base, token: d.token, http: d.http, timeout: limit}
	err := c.call(ctx, r, out)
	failed := elsewhere(err)
	if failed && ctx.Err() != nil { // the caller has given up, which says nothing about the node
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if failed {
		n.failed = time.Now()
	} else {
		n.failed = time.Time{}
		d.prefer(n)
	}
	return over(err)
}

// elsewhere says that another node might do better: this one, or what stands before it, gave no answer.
func elsewhere(err error) bool {
	var problem *Problem
	if errors.As(err, &problem) {
		return slices.Contains([]int{http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout}, problem.Status)
	}
	return err != nil
}

// over is what a worker needs to know of a refusal: that its session is over.
func over(err error) error {
	var problem *Problem
	if errors.As(err, &problem) && problem.Status == http.StatusGone {
		return fmt.Errorf("%w: %w", carillon.ErrLost, err)
	}
	return err
}

// order is in which order nodes are asked: the current one, then those that have not failed lately, then the others;
// among those alike the given ones first, which are sure to be meant for this machine.
func (d *Desk) order() []*node {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	rank := func(n *node) int {
		switch failing := now.Sub(n.failed) < remembered; {
		case failing && !n.given:
			return 3
		case failing:
			return 2
		case !n.given && n != d.nodes[0]:
			return 1
		}
		return 0
	}
	nodes := slices.Clone(d.nodes)
	slices.SortStableFunc(nodes, func(a, b *node) int { return rank(a) - rank(b) })
	return nodes
}

// prefer makes a node the current one. The caller holds mu.
func (d *Desk) prefer(n *node) {
	if i := slices.Index(d.nodes, n); i > 0 {
		d.nodes = slices.Insert(slices.Delete(d.nodes, i, i+1), 0, n)
	}
}

// learn takes over which nodes there are. What has failed lately stays known as that, also under its old entry.
func (d *Desk) learn(addresses []string) {
	if len(addresses) == 0 {
		return // a node that does not know yet, rather than a cluster without nodes
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	listed := map[string]bool{}
	for _, address := range addresses {
		base, err := parseServer(address)
		if err != nil {
			continue
		}
		key := strings.TrimSuffix(base.String(), "/")
		listed[key] = true
		if !slices.ContainsFunc(d.nodes, func(n *node) bool { return n.key() == key }) {
			at := 1 + rand.IntN(len(d.nodes)) // not in front of the current one
			d.nodes = slices.Insert(d.nodes, at, &node{base: base})
		}
	}
	d.nodes = slices.DeleteFunc(d.nodes, func(n *node) bool { return !n.given && !listed[n.key()] })
}

func (n *node) key() string { return strings.TrimSuffix(n.base.String(), "/") }

// shuffle lets workers that were given the same servers begin with different ones.
func (d *Desk) shuffle() {
	rand.Shuffle(len(d.nodes), func(i, j int) { d.nodes[i], d.nodes[j] = d.nodes[j], d.nodes[i] })
}

func names(nodes []*node) string {
	all := make([]string, len(nodes))
	for i, n := range nodes {
		all[i] = n.base.String()
	}
	return strings.Join(all, ", ")
}
