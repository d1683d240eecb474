package examples

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"testing"
)

// The server is away, or has forgotten the worker, at the moment when the worker says that it stops.
func TestTheWorkerInPythonEndsWithoutItsServer(t *testing.T) {
	need(t, "python3")
	for name, leave := range map[string]http.HandlerFunc{
		"it does not answer": func(http.ResponseWriter, *http.Request) {
			panic(http.ErrAbortHandler)
		},
		"it has forgotten the worker": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusGone)
		},
	} {
		t.Run(name, func(t *testing.T) {
			beats := make(chan struct{}, 1)
			mux := http.NewServeMux()
			answer := func(text string) http.HandlerFunc {
				return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }
			}
			mux.HandleFunc("POST /v1/workers", answer(`{"worker_id": "worker_1"}`))
			mux.HandleFunc("POST /v1/workers/worker_1/pull", answer(`{"tasks": []}`))
			mux.HandleFunc("POST /v1/workers/worker_1/beat",
				func(w http.ResponseWriter, r *http.Request) {
					answer(`{"stop": []}`)(w, r)
					select {
					case beats <- struct{}{}:
					default:
					}
				})
			mux.HandleFunc("DELETE /v1/workers/worker_1", leave)
			away := httptest.NewUnstartedServer(mux)
			away.Config.ErrorLog = log.New(io.Discard, "", 0)
			away.Start()
			defer away.Close()
			h := &house{t: t, url: away.URL, token: "token"}
			stop := h.start("python3", "python/worker.py", "python")
			<-beats
			stop()
		})
	}
}
