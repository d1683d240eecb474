package api

import (
	"net/http"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/catalog"
	"github.com/carillon-run/carillon/internal/wire"
)

func (s *server) namespaceRoutes() []route {
	return []route{
		{
			Method: "GET", Pattern: "/v1/namespaces",
			Summary: "List the namespaces of the token: there is one",
			Status:  200, Gives: wire.List[wire.Namespace]{}, handle: s.listNamespaces,
		},
		{
			Method: "GET", Pattern: "/v1/namespaces/{name}",
			Summary: "Read what operators set for the namespace of the token",
			Status:  200, Gives: wire.Namespace{}, handle: s.getNamespace,
		},
		{
			Method: "PUT", Pattern: "/v1/namespaces/{name}",
			Summary: "Set the weight of the namespace of the token, 1 to 100; 1, the default, removes the " +
				"setting",
			Takes: wire.WeightRequest{}, Status: 200, Gives: wire.Namespace{}, Keyed: true,
			handle: s.setNamespace,
		},
	}
}

// shownNamespace is a namespace as the API shows it; r is nil if it has no weight.
func (s *server) shownNamespace(name string, r *catalog.Record[catalog.Namespace]) wire.Namespace {
	shown := wire.Namespace{Name: name, Weight: 1}
	if r != nil {
		shown.Weight, shown.SetBy, shown.SetAt = r.Value.Weight, r.By, r.At
	}
	limit := s.settings().Limits.Get(name, catalog.LimitName(carillon.LimitNamespace, name))
	if limit != nil {
		limit := shownLimit(limit)
		shown.Limit = &limit
	}
	return shown
}

func (s *server) listNamespaces(w http.ResponseWriter, r *http.Request, _ *query) error {
	own := namespace(r)
	return reply(w, http.StatusOK, wire.List[wire.Namespace]{Items: []wire.Namespace{
		s.shownNamespace(own, s.settings().Namespaces.Get(own, own)),
	}})
}

func (s *server) getNamespace(w http.ResponseWriter, r *http.Request, _ *query) error {
	name, err := pathName(r, "name")
	if err != nil {
		return err
	}
	if name != namespace(r) {
		return notFound("namespace " + name + " of this token")
	}
	return reply(w, http.StatusOK, s.shownNamespace(name, s.settings().Namespaces.Get(name, name)))
}

// ownNamespace refuses the name of a namespace that is not that of the token.
func ownNamespace(r *http.Request, field, name string) error {
	if own := namespace(r); name != own {
		return invalid(field, name, own+", the namespace of the token")
	}
	return nil
}

func (s *server) setNamespace(w http.ResponseWriter, r *http.Request, _ *query) error {
	name, weight, err := weightGiven(w, r)
	if err != nil {
		return err
	}
	if err := ownNamespace(r, "name", name); err != nil {
		return err
	}
	known, err := s.catalog()
	if err != nil {
		return err
	}
	of := catalog.NamespaceName(name)
	var set catalog.Record[catalog.Namespace]
	return s.writeRecord(w, r, func() any { return s.shownNamespace(name, &set) }, func() error {
		_, err := catalog.Namespaces.Write(r.Context(), known, of, credentialOf(r).Name,
			func(_, next *catalog.Record[catalog.Namespace], _ *carillon.Change) (remove bool, err error) {
				next.Value.Weight = weight
				if set = *next; weight == 1 { // the default needs no record
					set.By, set.At = "", 0
					return true, nil
				}
				return false, nil
			})
		return err
	})
}
