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
	mux    *http.ServeMux // the routes, and missed for every other request
	known  *http.ServeMux // the routes alone: it knows which methods a path answers to
	about  []byte         // the OpenAPI description
	recent recent
	load   load
	counts counts
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
	Keyed   bool // takes an Idempotency-Key: see carillon.Once
	Adds    bool // adds jobs or runs; it is refused with 429 when too many wait for the store: see load
	handle  handler
}

func (s *server) route() {
	s.routes = s.table()
	s.mux, s.known = http.NewServeMux(), http.NewServeMux()
	for _, rt := range s.routes {
		s.mux.Handle(rt.Method+" "+rt.Pattern, s.serve(rt))
		s.known.Handle(rt.Method+" "+rt.Pattern, http.NotFoundHandler())
	}
	s.mux.HandleFunc("/", s.missed)
	s.about = describe(s.routes)
}

// dispatch passes the request to its route. The mux would redirect a path that is not clean, and answer to *
// in plain text; here such a path does not exist.
func (s *server) dispatch(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "*" && path.Clean(r.URL.Path) == r.URL.Path {
		s.mux.ServeHTTP(w, r)
		return
	}
	s.refuseUnknown(w, r, "")
}

// missed answers a request that fits no route. The mux of the routes alone says in its answer, which is plain
// text, whether the path answers to other methods.
func (s *server) missed(w http.ResponseWriter, r *http.Request) {
	r.Pattern = "" // the log names no route
	handler, _ := s.known.Handler(r)
	answer := headOnly{}
	handler.ServeHTTP(answer, r)
	s.refuseUnknown(w, r, answer.Header().Get("Allow"))
}

// refuseUnknown says that the path does not exist, or which methods it answers to. An unknown path needs a
// token too: otherwise the difference between 401 and 404 would map out the server.
func (s *server) refuseUnknown(w http.ResponseWriter, r *http.Request, allow string) {
	if _, ok := s.authenticate(r); !ok {
		s.refuse(w)
		return
	}
	if allow == "" {
		s.fail(w, r, notFound("path "+jobjson.Shorten(r.URL.Path, maxGiven)))
		return
	}
	w.Header().Set("Allow", allow)
	problem{
		Type: "method-not-allowed", Title: "Method not allowed", Status: http.StatusMethodNotAllowed,
		Detail: r.URL.Path + " takes " + allow + ", not " + jobjson.Shorten(r.Method, 20),
	}.write(w)
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
		if err := s.answer(rt, w, r); err != nil {
			s.fail(w, r, err)
		}
	})
}

func (s *server) answer(rt route, w http.ResponseWriter, r *http.Request) error {
	q, err := readQuery(r, rt.Query)
	if err != nil {
		return err
	}
	if rt.Keyed {
		if r, err = withOnce(r); err != nil {
			return err
		}
	}
	if rt.Takes == nil {
		if err := readNothing(w, r); err != nil {
			return err
		}
	}
	if rt.Adds {
		entered, ok, err := s.enter(rt, w, r)
		if !ok {
			return err
		}
		defer s.give(entered)
	}
	return rt.handle(w, r, q)
}

// reply answers with JSON.
func reply(w http.ResponseWriter, status int, v any) error {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	encode(w, v)
	return nil
}
