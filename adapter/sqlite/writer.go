package sqlite

import (
	"zombiezen.com/go/sqlite"
)

// writer is the connection that writes, with its statements prepared: looking them up would take as long as
// some of them run. The constant of each statement stands above the function that runs it.
type writer struct {
	conn                           *sqlite.Conn
	begin, commit, rollback        statement
	savepoint, rollbackTo, release statement
	wary                           int // how many more commits are made with care

	insertJob, updateJob, readJob, moveJob, defineJob statement
	insertLabel, deleteLabel                          statement
	insertRun, insertNew, updateRun, deleteRun        statement
	insertHistory, insertDead, deleteDead, fillPrint  statement
	putResult, putCheckpoint, putPayload, putAttempt  statement
	insertGuard, updateGuard, deleteGuard             statement
	seeRun, seeGuard                                  statement

	lastHistory, deleteHistory, deleteLetter      statement
	deleteResult, deleteCheckpoint, deletePayload statement
	deleteAttempts                                statement
	deleteJob, deleteDefinitions, dropGuard       statement
}

func newWriter(conn *sqlite.Conn) (*writer, error) {
	w := &writer{conn: conn}
	for _, p := range []struct {
		stmt  *statement
		query string
	}{
		{&w.begin, `BEGIN IMMEDIATE`},
		{&w.commit, `COMMIT`},
		{&w.rollback, `ROLLBACK`},
		{&w.savepoint, `SAVEPOINT change`},
		{&w.rollbackTo, `ROLLBACK TO change`},
		{&w.release, `RELEASE change`},
		{&w.insertJob, insertJob},
		{&w.updateJob, updateJob},
		{&w.readJob, readJob},
		{&w.moveJob, moveJob},
		{&w.defineJob, defineJob},
		{&w.insertLabel, insertLabel},
		{&w.deleteLabel, deleteLabel},
		{&w.insertRun, insertRun},
		{&w.insertNew, insertNew},
		{&w.updateRun, updateRun},
		{&w.deleteRun, deleteRun},
		{&w.insertHistory, insertHistory},
		{&w.insertDead, insertDead},
		{&w.deleteDead, deleteDead},
		{&w.fillPrint, fillPrint},
		{&w.putResult, putResult},
		{&w.putCheckpoint, putCheckpoint},
		{&w.putPayload, putPayload},
		{&w.putAttempt, putAttempt},
		{&w.insertGuard, insertGuard},
		{&w.updateGuard, updateGuard},
		{&w.deleteGuard, deleteGuard},
		{&w.seeRun, seeRun},
		{&w.seeGuard, seeGuard},
		{&w.lastHistory, lastHistory},
		{&w.deleteHistory, deleteHistory},
		{&w.deleteLetter, deleteLetter},
		{&w.deleteResult, deleteResult},
		{&w.deleteCheckpoint, deleteCheckpoint},
		{&w.deletePayload, deletePayload},
		{&w.deleteAttempts, deleteAttempts},
		{&w.deleteJob, deleteJob},
		{&w.deleteDefinitions, deleteDefinitions},
		{&w.dropGuard, dropGuard},
	} {
		if err := p.stmt.prepare(conn, p.query); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// undo ends a transaction that went wrong. After some errors SQLite itself has ended it.
func (w *writer) undo() error {
	if w.conn.AutocommitEnabled() {
		return nil
	}
	return w.rollback.exec()
}

func (w *writer) again() error {
	if err := w.undo(); err != nil {
		return err
	}
	return w.begin.exec()
}
