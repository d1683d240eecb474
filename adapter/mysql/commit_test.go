package mysql

import (
	"errors"
	"fmt"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/carillon-run/carillon"
)

func TestAFullDiskIsNamed(t *testing.T) {
	for _, c := range []struct {
		number  uint16
		message string
		full    bool
	}{
		{1021, "Disk full", true},
		{1026, `Error writing file (Errcode: 28 "No space left on device")`, true},
		{1030, `Got error 28 "No space left on device" from storage engine InnoDB`, true},
		{1030, "Got error 168 from storage engine", false},
		{1114, "The table 'run' is full", true},
		{1213, "Deadlock found", false},
	} {
		err := named(fmt.Errorf("write: %w", &mysql.MySQLError{Number: c.number, Message: c.message}))
		if errors.Is(err, carillon.ErrFull) != c.full || err == nil {
			t.Errorf("%d %s: %v", c.number, c.message, err)
		}
	}
	if err := named(nil); err != nil {
		t.Error(err)
	}
}
