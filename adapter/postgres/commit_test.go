package postgres

import (
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/carillon-run/carillon"
)

func TestAFullDiskIsNamed(t *testing.T) {
	for code, full := range map[string]bool{"53100": true, "53200": false, "57P01": false} {
		err := named(fmt.Errorf("write: %w", &pgconn.PgError{Code: code}))
		if errors.Is(err, carillon.ErrFull) != full || err == nil {
			t.Errorf("%s: %v", code, err)
		}
	}
	if err := named(nil); err != nil {
		t.Error(err)
	}
}
