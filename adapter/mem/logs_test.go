package mem_test

import (
	"testing"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/mem"
	"github.com/carillon-run/carillon/porttest"
)

func TestLogs(t *testing.T) {
	porttest.Logs(t, func(*testing.T) carillon.LogStore { return mem.NewLogs() })
}
