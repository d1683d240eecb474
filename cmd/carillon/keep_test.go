package main

import (
	"strings"
	"testing"
)

func TestSlotsThatAreKeptAreFewerThanThereAre(t *testing.T) {
	for _, c := range []struct{ keep, concurrency, most int }{
		{-1, 64, 63}, {64, 64, 63}, {1, 1, 0}, {1, 0, 0},
	} {
		err := checkKeep(c.keep, c.concurrency)
		if err == nil || !strings.Contains(err.Error(), "keep: ") {
			t.Errorf("%+v: %v", c, err)
		}
		if err := checkKeep(c.most, c.concurrency); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
