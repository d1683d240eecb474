package api

import (
	"net/http"
	"slices"
	"strings"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/catalog"
	"github.com/carillon-run/carillon/internal/jobjson"
	"github.com/carillon-run/carillon/internal/wire"
)

func (s *server) limitRoutes() []route {
	return []route{
		{
			Method: "GET", Pattern: "/v1/limits",
			Summary: "List the limits that operators set for queues, types and namespaces",
			Status:  200, Gives: wire.List[wire.Limit]{}, handle: s.listLimits,
		},
		{
			Method: "PUT", Pattern: "/v1/limits/{of}/{key}",
			Summary: "Set the limit of a queue, a type or a namespace, for runs that start from then on",
			Takes:   wire.LimitRequest{}, Status: 200, Gives: wire.Limit{}, Keyed: true, handle: s.setLimit,
		},
		{
			Method: "DELETE", Pattern: "/v1/limits/{of}/{key}",
			Summary: "Remove a limit; runs that waited for it go on", Status: 200, Gives: wire.Limit{},
			Keyed: true, handle: s.removeLimit,
		},
	}
}

// shownLimit is a limit as the API shows it.
func shownLimit(r *catalog.Record[carillon.Limit]) wire.Limit {
	return wire.Limit{
		Of: r.Value.Of, Key: r.Value.Key, Concurrency: r.Value.Concurrency, Rate: r.Value.Rate.String(),
		Burst: r.Value.Burst, SetBy: r.By, SetAt: r.At,
	}
}

func (s *server) listLimits(w http.ResponseWriter, r *http.Request, _ *query) error {
	list := wire.List[wire.Limit]{Items: []wire.Limit{}}
	for _, record := range s.settings().Limits.All(namespace(r)) {
		list.Items = append(list.Items, shownLimit(record))
	}
	return reply(w, http.StatusOK, list)
}

// limitKinds are what a limit of operators can be for.
var limitKinds = []carillon.LimitOf{carillon.LimitQueue, carillon.LimitType, carillon.LimitNamespace}

// limitName reads from the path what a limit is for.
func limitName(r *http.Request) (of carillon.LimitOf, key string, err error) {
	of = carillon.LimitOf(r.PathValue("of"))
	if !slices.Contains(limitKinds, of) {
		return of, "", invalid("of", string(of), "queue, type or namespace")
	}
	if key, err = pathName(r, "key"); err != nil {
		return of, "", err
	}
	if of == carillon.LimitNamespace {
		err = ownNamespace(r, "key", key)
	}
	return of, key, err
}

func (s *server) setLimit(w http.ResponseWriter, r *http.Request, _ *query) error {
	body, err := readJSON(w, r, wire.MaxBody)
	if err != nil {
		return err
	}
	of, key, err := limitName(r)
	if err != nil {
		return err
	}
	var given wire.LimitRequest
	if err := jobjson.Decode(body, &given); err != nil {
		return err
	}
	limit, err := limitOf(of, key, &given)
	if err != nil {
		return err
	}
	known, err := s.catalog()
	if err != nil {
		return err
	}
	name := catalog.Name{Namespace: namespace(r), Name: catalog.LimitName(of, key)}
	var set catalog.Record[carillon.Limit]
	return s.writeRecord(w, r, func() any { return shownLimit(&set) }, func() error {
		_, err := catalog.Limits.Write(r.Context(), known, name, credentialOf(r).Name,
			func(_, next *catalog.Record[carillon.Limit], _ *carillon.Change) (remove bool, err error) {
				next.Value = limit
				set = *next
				return false, nil
			})
		return err
	})
}

// limitOf admits a limit.
func limitOf(of carillon.LimitOf, key string, given *wire.LimitRequest) (carillon.Limit, error) {
	l := carillon.Limit{Of: of, Key: key}
	for _, n := range []struct {
		field string
		given *int
		to    *int
	}{{"concurrency", given.Concurrency, &l.Concurrency}, {"burst", given.Burst, &l.Burst}} {
		if n.given == nil {
			continue
		}
		if *n.to = *n.given; *n.given == 0 { // which Admit would take for none
			return l, invalid(n.field, "0", "a number above 0; leave the field out for none")
		}
	}
	if given.Rate != nil {
		rate, err := carillon.ParseRate(*given.Rate)
		if err != nil {
			return l, invalid("rate", *given.Rate, carillon.RateForm)
		}
		l.Rate = rate
	}
	if fault := l.Admit("limit"); fault != nil {
		if fault.Field = strings.TrimPrefix(fault.Field, "limit."); fault.Field == "limit" {
			fault.Field = "body"
		}
		return l, fault
	}
	return l, nil
}

func (s *server) removeLimit(w http.ResponseWriter, r *http.Request, _ *query) error {
	of, key, err := limitName(r)
	if err != nil {
		return err
	}
	known, err := s.catalog()
	if err != nil {
		return err
	}
	name := catalog.Name{Namespace: namespace(r), Name: catalog.LimitName(of, key)}
	var removed catalog.Record[carillon.Limit]
	return s.writeRecord(w, r, func() any { return shownLimit(&removed) }, func() error {
		_, err := catalog.Limits.Write(r.Context(), known, name, credentialOf(r).Name,
			func(was, _ *catalog.Record[carillon.Limit], _ *carillon.Change) (remove bool, err error) {
				if was == nil {
					return false, notFound("limit of " + string(of) + " " + key)
				}
				removed = *was
				return true, nil
			})
		return err
	})
}
