package mysql_test

import (
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/mysql"
)

const (
	dayLength = carillon.Time(24 * time.Hour / time.Millisecond)
	midnight  = now - now%dayLength
)

var month = carillon.Retention{Runs: carillon.Duration(30 * 24 * time.Hour)}

// forgetAll forgets until nothing is left.
func forgetAll(t *testing.T, store *mysql.Store, at carillon.Time) (forgotten int) {
	t.Helper()
	for {
		n, err := store.Forget(t.Context(), month, at, 7)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			return forgotten
		}
		forgotten += n
	}
}

func count(t *testing.T, store *mysql.Store, query string) string {
	t.Helper()
	answer, err := store.Query(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	return answer[0][0]
}

// history commits jobs that end through three days, from midnight on.
func history(t *testing.T, store *mysql.Store, edit func(i int, end *carillon.Change)) []carillon.Change {
	t.Helper()
	if _, err := store.Forget(t.Context(), month, midnight, 1); err != nil { // makes the days
		t.Fatal(err)
	}
	changes := submits(t, 60, func(_ int, job *carillon.Job) { job.Labels = map[string]string{"k": "v"} })
	win(t, store, changes...)
	ends := make([]carillon.Change, len(changes))
	for i, c := range changes {
		ends[i] = ended(c, midnight+carillon.Time(i)*dayLength/20)
		ends[i].Runs[0].Output = &carillon.Output{Result: []byte("r")}
		if edit != nil {
			edit(i, &ends[i])
		}
	}
	win(t, store, ends...)
	return ends
}

func TestALargeDayGoesAsAWholeWhenAllOfItMayGo(t *testing.T) {
	store := openAt(t, database(t))
	store.Bound(1000, 20)
	history(t, store, nil)
	const left = `SELECT concat_ws(' ', (SELECT count(*) FROM history), (SELECT count(*) FROM job), (SELECT count(*) FROM result),
(SELECT count(*) FROM job_label), (SELECT count(*) FROM run))`
	month := 30 * dayLength
	for _, c := range []struct {
		at        carillon.Time
		forgotten int
		left      string
	}{
		{midnight + month + dayLength/2, 0, "60 60 60 60 0"},               // half a day waits for the rest
		{midnight + month + dayLength, 0, "60 60 60 60 0"},                 // a record may come late
		{midnight + month + dayLength + dayLength/24, 20, "40 40 40 40 0"}, // now it goes
		{midnight + month + 3*dayLength + dayLength/24, 40, "0 0 0 0 0"},   // and the other two
	} {
		if n := forgetAll(t, store, c.at); n != c.forgotten {
			t.Errorf("forgot %d, want %d", n, c.forgotten)
		}
		if got := count(t, store, left); got != c.left {
			t.Errorf("left %s, want %s", got, c.left)
		}
	}
}

func TestASmallDayGoesRecordByRecordAndItsPartitionAfterIt(t *testing.T) {
	store := openAt(t, database(t))
	store.Bound(1000, 21)
	history(t, store, nil)
	if n := forgetAll(t, store, midnight+30*dayLength+dayLength/2); n != 11 { // also the one that ended then
		t.Errorf("forgot %d", n)
	}
	const firstDay = `SELECT count(*) FROM information_schema.PARTITIONS
WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'history' AND PARTITION_NAME = 'until_20270116'`
	before := count(t, store, firstDay)
	if n := forgetAll(t, store, midnight+32*dayLength); n != 30 {
		t.Errorf("forgot %d", n)
	}
	if after := count(t, store, firstDay); before != "1" || after != "0" {
		t.Errorf("the partition: %s, %s", before, after)
	}
}

func TestALargeDayThatHoldsSomethingForLongerGoesRecordByRecord(t *testing.T) {
	store := openAt(t, database(t))
	store.Bound(1000, 20)
	history(t, store, func(i int, end *carillon.Change) {
		if i == 5 {
			end.Runs[0].Expires = midnight + 300*dayLength
		}
	})
	if n := forgetAll(t, store, midnight+35*dayLength); n != 59 {
		t.Errorf("forgot %d", n)
	}
	if got := count(t, store, `SELECT count(*) FROM job`); got != "1" {
		t.Errorf("%s jobs are left", got)
	}
}

// A recurring job has records in many days, and a job that was run again has one in a later day: these stay.
func TestWhatAJobLeftInOtherDaysKeepsIt(t *testing.T) {
	store := openAt(t, database(t))
	store.Bound(1000, 20)
	ends := history(t, store, nil)
	again := ends[3].Runs[0]
	again.Rev, again.Ended, again.Output = 0, midnight+2*dayLength+1, nil
	win(t, store, carillon.Change{Runs: []carillon.Run{again}})
	if n := forgetAll(t, store, midnight+31*dayLength+dayLength/24); n != 20 {
		t.Errorf("forgot %d", n)
	}
	runs, err := store.Runs(t.Context(), []carillon.RunID{again.ID}, true)
	if err != nil || len(runs) != 1 || runs[0].Output == nil || runs[0].Ended != again.Ended {
		t.Errorf("%v %v", runs, err)
	}
	if got := count(t, store, `SELECT count(*) FROM job`); got != "41" {
		t.Errorf("%s jobs are left", got)
	}
}

// Nodes that were off for long find no day that was made ahead; records written meanwhile are moved into
// their day.
func TestRecordsForWhichNoDayWasMadeAreKeptAndMoved(t *testing.T) {
	store := openAt(t, database(t))
	changes := submits(t, 3, nil)
	win(t, store, changes...)
	for i, c := range changes {
		win(t, store, ended(c, now+carillon.Time(i)*dayLength))
	}
	const later = `SELECT count(*) FROM history PARTITION (later)`
	if got := count(t, store, later); got != "3" {
		t.Fatalf("%s", got)
	}
	if _, err := store.Forget(t.Context(), month, now+2*dayLength, 1); err != nil {
		t.Fatal(err)
	}
	if got := count(t, store, later) + count(t, store, `SELECT count(*) FROM history`); got != "03" {
		t.Errorf("%s", got)
	}
}

func TestTooManyRecordsToBeMovedStayWhereTheyAre(t *testing.T) {
	store := openAt(t, database(t))
	store.Bound(1000, 3)
	changes := submits(t, 3, nil)
	win(t, store, changes...)
	for _, c := range changes {
		win(t, store, ended(c, now))
	}
	if n := forgetAll(t, store, now+dayLength); n != 0 {
		t.Errorf("forgot %d", n)
	}
	if got := count(t, store, `SELECT count(*) FROM history PARTITION (later)`); got != "3" {
		t.Errorf("%s", got)
	}
	if n := forgetAll(t, store, now+40*dayLength); n != 3 {
		t.Errorf("forgot %d", n)
	}
}
