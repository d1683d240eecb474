package main

import (
	"github.com/carillon-run/carillon/bench/peers/report"
	"github.com/carillon-run/carillon/bench/peers/result"
)

// publish writes the page and the plots that readers see.
func publish(runs []result.Run) error { return report.Write(runs, root) }
