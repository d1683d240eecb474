package main

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"
)

// plain performs each step in one transaction, with one statement for each kind of write, on two connections.
func (m mariaDB) plain(ctx context.Context, at place, n int) (rate float64, err error) {
	db, err := openMariaDB(at.store)
	if err != nil {
		return 0, err
	}
	defer db.Close()
	for _, create := range mariaDBPlainSchema {
		if _, err := db.ExecContext(ctx, create); err != nil {
			return 0, fmt.Errorf("create the tables: %w", err)
		}
	}
	db.SetMaxIdleConns(plainConnections)
	start := time.Now()
	err = pipeline(n, func(_ int, insert, claim, finish []int64) error {
		return mariaDBPlainStep(ctx, db, insert, claim, finish)
	})
	return float64(n) / time.Since(start).Seconds(), err
}

var mariaDBPlainSchema = []string{
	`CREATE TABLE job (id BIGINT PRIMARY KEY, rev INT NOT NULL, ns VARBINARY(255) NOT NULL,
  type VARBINARY(255) NOT NULL, payload LONGBLOB NOT NULL)`,
	`CREATE TABLE run (due BIGINT NOT NULL, job BIGINT NOT NULL, wake BIGINT NOT NULL, rev INT NOT NULL,
  attempt INT NOT NULL, state TINYINT NOT NULL, queue VARBINARY(255) NOT NULL, worker VARBINARY(255) NOT NULL,
  PRIMARY KEY (due, job))`,
	`CREATE TABLE history (pos BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, job BIGINT NOT NULL,
  due BIGINT NOT NULL, started BIGINT NOT NULL, ended BIGINT NOT NULL, attempt INT NOT NULL,
  state TINYINT NOT NULL, worker VARBINARY(255) NOT NULL, type VARBINARY(255) NOT NULL,
  KEY history_job (job, due))`,
}

// manyRows is a statement: its beginning, the part that is repeated for every row, its end, and the values of
// the row for a job id.
type manyRows struct {
	begin, row, end string
	args            func(id int64) []any
}

// The delete has no hint: only the form for several tables takes one, and MariaDB would turn that form into a
// join with a thousand rows, and the join into a scan of the table.
var (
	mariaDBPlainJobs = manyRows{
		`INSERT INTO job VALUES `, `(?,1,'default','bench',?)`, ``,
		func(id int64) []any { return []any{id, []byte(payload)} },
	}
	mariaDBPlainRuns = manyRows{
		`INSERT INTO run VALUES `, `(?,?,?,1,0,1,'default','')`, ``,
		func(id int64) []any { return []any{id, id, id} },
	}

	mariaDBPlainClaim = manyRows{
		`UPDATE run SET state = 2, attempt = 1, rev = rev + 1, worker = 'w' WHERE rev = 1
  AND (due, job) IN (`, `(?,?)`, `)`,
		func(id int64) []any { return []any{id, id} },
	}
	mariaDBPlainDelete = manyRows{
		`DELETE FROM run WHERE rev = 2 AND (due, job) IN (`, `(?,?)`, `)`,
		func(id int64) []any { return []any{id, id} },
	}
	mariaDBPlainHistory = manyRows{
		`INSERT INTO history (job, due, started, ended, attempt, state, worker, type) VALUES `,
		`(?,?,?,?,1,4,'w','bench')`, ``,
		func(id int64) []any { return []any{id, id, id, id} },
	}
)

func mariaDBPlainStep(ctx context.Context, db *sql.DB, insert, claim, finish []int64) error {
	// Read committed: with locks on the gaps between rows, two connections that append would wait for each
	// other.
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return err
	}
	defer tx.Rollback()
	for _, s := range []struct {
		manyRows
		ids []int64
	}{
		{mariaDBPlainJobs, insert},
		{mariaDBPlainRuns, insert},
		{mariaDBPlainClaim, claim},
		{mariaDBPlainDelete, finish},
		{mariaDBPlainHistory, finish},
	} {
		if err := s.exec(ctx, tx, s.ids); err != nil {
			return err
		}
	}
	return tx.Commit()
}

func (m *manyRows) exec(ctx context.Context, tx *sql.Tx, ids []int64) error {
	if len(ids) == 0 {
		return nil
	}
	var args []any
	for _, id := range ids {
		args = append(args, m.args(id)...)
	}
	result, err := tx.ExecContext(ctx, m.begin+strings.Repeat(m.row+",", len(ids)-1)+m.row+m.end, args...)
	if err != nil {
		return err
	}
	n, err := result.RowsAffected()
	if err == nil && int(n) != len(ids) {
		err = fmt.Errorf("%.20s… wrote %d rows of %d", m.begin, n, len(ids))
	}
	return err
}
