package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/carillon-run/carillon/node"
)

// engine keeps the jobs: a library in this process, or a server that was started for this run.
type engine interface {
	// about names its version and the settings that matter.
	about(ctx context.Context) (string, error)
	// create makes an empty database and returns the URL with which a node opens it; empty: the file in the
	// data directory.
	create(ctx context.Context, name string) (store string, err error)
	drop(ctx context.Context, name string) error
	// plain does the minimum that n jobs cost, in a separate database: insert, claim and finish their rows.
	plain(ctx context.Context, at place, n int) (rate float64, err error)
	// hold opens a transaction that keeps seeing the database as it is now.
	hold(ctx context.Context, at place) (release func() error, err error)
	stop() error
}

// kind is a store that can be measured.
type kind struct {
	name   string
	start  func(ctx context.Context, dir string) (engine, error) // dir is for the server
	shared bool                                                  // several nodes can use one database
	// bulk is a rate, in jobs a second, that it surely accepts in bulk.
	bulk float64
	bars []bar
}

// overloadBars are the same for every store.
var overloadBars = []bar{
	{figure: "overload_goodput_ratio", limit: 90},
	{figure: "overload_timeouts", limit: 0, atMost: true},
	{figure: "overload_rss_peak", limit: 1000, atMost: true},
	{figure: "overload_submits_usual_after", limit: 30, atMost: true},
	{figure: "overload_starts_usual_after", limit: 30, atMost: true},
}

var kinds = []kind{
	{name: "sqlite", start: startEmbedded, bulk: 25_000, bars: []bar{
		{figure: "submit_x16", limit: 15_000},
		{figure: "steady", limit: 40_000},
		{figure: "drain", limit: 55_000},
		{figure: "drain_of_plain", limit: 60},
		{figure: "instant_lateness_p99", limit: 1000, atMost: true},
		{figure: "pickup_p50", limit: 1.2, atMost: true},
		{figure: "pickup_p99", limit: 5, atMost: true},
		{figure: "ahead_rss", limit: 100, atMost: true},
		{figure: "ahead_cpu", limit: 1, atMost: true},
		{figure: "backlog_cost_ratio", limit: 1.2, atMost: true},
	}},
	{name: "postgres", start: startPostgres, shared: true, bulk: 12_000, bars: []bar{
		{figure: "drain", limit: 35_000},
		{figure: "steady", limit: 25_000},
		{figure: "drain_of_plain", limit: 60},
		{figure: "pickup_p50", limit: 1.6, atMost: true},
		{figure: "pickup_p99", limit: 5, atMost: true},
		{figure: "backlog_cost_ratio", limit: 1.2, atMost: true},
		{figure: "remote_ratio", limit: 70},
		{figure: "nodes_ratio", limit: 80},
		{figure: "held_ratio", limit: 70},
	}},
	{name: "mysql", start: startMariaDB, shared: true, bulk: 5_000, bars: []bar{
		{figure: "drain", limit: 12_000},
		{figure: "remote_ratio", limit: 70},
	}},
}

// place is where nodes keep their data.
type place struct {
	name  string // of the database
	data  string // directory; nodes that share the database have one each
	store string
}

// fresh is a new, empty place.
func (b *bench) fresh(ctx context.Context) (place, error) {
	b.opened++
	at := place{name: fmt.Sprintf("%s_%d", b.scene, b.opened)}
	at.data = filepath.Join(b.dir, at.name)
	if err := os.MkdirAll(at.data, 0o700); err != nil {
		return place{}, err
	}
	var err error
	if at.store, err = b.engine.create(ctx, at.name); err != nil {
		return place{}, fmt.Errorf("create the database %s: %w", at.name, err)
	}
	return at, nil
}

// discard removes a place: otherwise the engine would checkpoint and clean up old data during the next
// measurement.
func (b *bench) discard(ctx context.Context, at place) error {
	if err := b.engine.drop(ctx, at.name); err != nil {
		return fmt.Errorf("drop the database %s: %w", at.name, err)
	}
	return os.RemoveAll(at.data)
}

func (at place) config(concurrency int) node.Config {
	return node.Config{Data: at.data, Store: at.store, Concurrency: concurrency}
}

func plainScenario(ctx context.Context, b *bench) error {
	at, err := b.fresh(ctx)
	if err != nil {
		return err
	}
	rate, err := b.engine.plain(ctx, at, b.count(200_000))
	if err != nil {
		return err
	}
	b.figure("plain_cycle", rate, "jobs/s")
	return b.discard(ctx, at)
}
