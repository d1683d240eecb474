package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/carillon-run/carillon"
)

// What tests outside the package need from inside it.

// ScanAtMost bounds a search to a few rows.
func (s *Store) ScanAtMost(rows int) { s.maxScan, s.maxReach = rows, rows }

// Direct says whether the other end is the server itself.
func (s *Store) Direct(ctx context.Context) (direct bool, err error) {
	err = s.with(ctx, s.readers, func(_ context.Context, c *conn) error { direct = c.direct; return nil })
	return direct, err
}

// Empty removes everything, on a connection that the store already has.
func (s *Store) Empty(ctx context.Context) error {
	_, err := s.writers.Exec(ctx, `DELETE FROM carillon.job; DELETE FROM carillon.definition; DELETE FROM carillon.job_label;
DELETE FROM carillon.run; DELETE FROM carillon.history; DELETE FROM carillon.dead; DELETE FROM carillon.dead_group; DELETE FROM carillon.result;
DELETE FROM carillon.checkpoint; DELETE FROM carillon.run_payload; DELETE FROM carillon.attempt; DELETE FROM carillon.guard`, pgx.QueryExecModeSimpleProtocol)
	return err
}

// TendDays is what Forget does once an hour.
func (s *Store) TendDays(ctx context.Context) error { return s.tendDays(ctx) }

// Try writes a change as Commit does, but only once.
func (s *Store) Try(ctx context.Context, change carillon.Change) error {
	return s.with(ctx, s.writers, func(ctx context.Context, c *conn) error {
		return newBatch().write(ctx, c, []carillon.Change{change}, nil)
	})
}

// Span is how many of the changes go into one batch.
func Span(changes []carillon.Change) int { return newBatch().group(changes) }

// Take is the next notification.
func (b *Bus) Take() (payload string, missed bool) { return b.take() }

// Settings is the SQL with which every session or transaction begins; $1 says for how long it holds.
var Settings = settings.sql

// Statement is a statement that the store runs again and again. Sorts: it can sort, because it finds few
// rows.
type Statement struct {
	Name, SQL string
	Sorts     bool
}

// Statements returns all such statements.
func Statements() (all []Statement) {
	for _, s := range []*rowStatement{
		insertRun, updateRun, deleteRun, freeRun, seeRun, insertJob, keepDefinition, dropLabels, addLabel,
		updateJob, insertLabel,
		seeJob, insertHistory, insertDead, deleteDead, seeDead, putResult, putCheckpoint, putPayload,
		insertGuard, updateGuard, deleteGuard,
		freeGuard, seeGuard, runsByKey, historyByKey, deadByKey, resultByKey, checkpointByKey, payloadByKey,
		wakesInShards, dueInShards, linesAfter, firstOfJobs,
		extraOfJobs, latestBegun, fillPrints, deleteResults, deleteCheckpoints, deletePayloads, deleteJobs,
	} {
		all = append(all, Statement{s.name, s.sql, false})
	}
	// they sort the rows of a batch, to lock in order
	for _, s := range []*rowStatement{compareGuard, lockGuard} {
		all = append(all, Statement{s.name, s.sql, true})
	}
	for _, s := range []statement{
		guardsByKey, guardsByPrefix, jobsByKey, olderByKey, aboutJobs, allEnded, allDead, allBad, jobEnded,
		historyByRule, historyByOwn, deadByRule, deadByOwn, deleteHistory, deleteLetters, lockOwners,
		lockTurns, removeGuards, holdsAfter, deadPrinted, deadTyped, missingPrints, groupTypes, groupSamples,
	} {
		all = append(all, Statement{s.name, s.sql, false})
	}
	for _, s := range []statement{jobsBefore, jobsLabeled, jobUnfinished, jobDead, deadGroups} {
		all = append(all, Statement{s.name, s.sql, true})
	}
	return all
}
