package api

import (
	"net/http"
	"path"

	"github.com/carillon-run/carillon/internal/jobjson"
)

type server struct {
	Config
	behind behind
	keys   []key
	seal   *seal
	routes []route
	mux    *http.ServeMux
	about  []byte // the OpenAPI description
	recent recent
}

// route is one line of the table. It holds everything about a route that can be checked or described without
// running it.
type route struct {
	Method  string
	Pattern string
	Summary string
	Public  bool // needs no token
	Query   []param
	Headers []param
	Takes   any  // a value of the type of the body, for the description; nil: no body is accepted
	MayTake bool // the body may be left out
	Status  int  // of success
	Or      int  // a second status of success, with the same answer; 0: none
	Gives   any  // a value of the type of the answer; nil: see the summary
	handle  handler
}

func (s *server) route() {
	s.routes = s.table()
	s.mux = http.NewServeMux()
	for _, rt := range s.routes {
		s.mux.Handle(rt.Method+" "+rt.Pattern, s.serve(rt))
	}
	s.about = describe(s.routes)
}

// dispatch passes the request to its route. The mux answers unknown paths and methods in plain text and
// redirects unclean paths, so dispatch asks it first which route fits. An unknown path needs a token too:
// otherwise the difference between 401 and 404 would map out the server.
func (s *server) dispatch(w http.ResponseWriter, r *http.Request) {
	handler, pattern := s.mux.Handler(r)
	clean := path.Clean(r.URL.Path) == r.URL.Path
	if pattern != "" && clean {
		s.mux.ServeHTTP(w, r)
		return
	}
	if _, ok := s.authenticate(r); !ok {
		s.refuse(w)
		return
	}
	if clean {
		answer := headOnly{}
		handler.ServeHTTP(answer, r)
		if allow := answer.Header().Get("Allow"); allow != "" {
			w.Header().Set("Allow", allow)
			problem{
				Type: "method-not-allowed", Title: "Method not allowed", Status: http.StatusMethodNotAllowed,
				Detail: r.URL.Path + " answers to " + allow + ", not to " + jobjson.Shorten(r.Method, 20),
			}.write(w)
			return
		}
	}
	s.fail(w, r, notFound("path "+jobjson.Shorten(r.URL.Path, maxGiven)))
}

// headOnly keeps the headers of an answer and drops the rest.
type headOnly http.Header

func (h headOnly) Header() http.Header         { return http.Header(h) }
func (h headOnly) Write(b []byte) (int, error) { return len(b), nil }
func (h headOnly) WriteHeader(int)             {}

// serve checks everything that the table says about a route before it runs the route.
func (s *server) serve(rt route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !rt.Public {
			credential, ok := s.authenticate(r)
			if !ok {
				s.refuse(w)
				return
			}
			r = withCredential(r, credential)
		}
		q, err := readQuery(r, rt.Query)
		if err == nil && rt.Takes == nil {
			err = readNothing(w, r)
		}
		if err == nil {
			err = rt.handle(w, r, q)
		}
		if err != nil {
			s.fail(w, r, err)
		}
	})
}

// reply answers with JSON.
func reply(w http.ResponseWriter, status int, v any) error {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	encode(w, v)
	return nil
}
