package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/postgres"
	"github.com/carillon-run/carillon/porttest"
)

func TestCoordinator(t *testing.T) {
	url := database(t)
	porttest.Coordinator(t, porttest.CoordinatorTest{
		Open: func(t *testing.T) carillon.Coordinator {
			store := open(t, url, postgres.Config{})
			execute(t, url, `DELETE FROM carillon.session`)
			return postgres.NewCoordinator(store)
		},
		Again: func(t *testing.T, _ carillon.Coordinator) carillon.Coordinator {
			return postgres.NewCoordinator(open(t, url, postgres.Config{}))
		},
		Age: func(t *testing.T, _ carillon.Coordinator, by time.Duration) {
			execute(t, url, fmt.Sprintf(`UPDATE carillon.session SET beat = beat - %d`, by.Milliseconds()))
		},
	})
}
