package disk_test

import (
	"testing"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/disk"
	"github.com/carillon-run/carillon/porttest"
)

func TestLogs(t *testing.T) {
	porttest.Logs(t, func(t *testing.T) carillon.LogStore {
		logs, err := disk.NewLogs(t.TempDir(), disk.Config{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = logs.Close() })
		return logs
	})
}
