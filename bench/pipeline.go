package main

import (
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	plainConnections = 2
	plainBatchSize   = 1000
)

// pipeline takes n rows through insert, claim and finish in batches. In every step a connection inserts a
// batch, claims its previous batch, and finishes the one before that; a slice can be empty. Ids rise with
// time.
func pipeline(n int, step func(conn int, insert, claim, finish []int64) error) error {
	base := time.Now().UnixMilli() << 22
	batch := func(k, conn int) (ids []int64) {
		if k < 0 {
			return nil
		}
		first := (k*plainConnections + conn) * plainBatchSize
		for i := first; i < min(first+plainBatchSize, n); i++ {
			ids = append(ids, base+int64(i))
		}
		return ids
	}
	var g errgroup.Group
	for conn := range plainConnections {
		g.Go(func() error {
			for k := 0; ; k++ {
				insert, claim, finish := batch(k, conn), batch(k-1, conn), batch(k-2, conn)
				if len(insert)+len(claim)+len(finish) == 0 {
					return nil
				}
				if err := step(conn, insert, claim, finish); err != nil {
					return err
				}
			}
		})
	}
	return g.Wait()
}
