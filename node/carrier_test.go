package node

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/mem"
	"github.com/carillon-run/carillon/porttest"
)

func TestCarrier(t *testing.T) {
	porttest.Carrier(t, func(t *testing.T, from carillon.Queue) carillon.Carrier {
		mux := http.NewServeMux()
		mux.Handle("POST "+carrierPath, carrierHandler(from, "secret", func([]carillon.RunID) {}))
		server := httptest.NewServer(mux)
		t.Cleanup(server.Close)
		return httpCarriers("secret")(server.URL)
	})
}

func TestDueRunsAreGivenToNodesOfTheClusterOnly(t *testing.T) {
	handler := carrierHandler(mem.NewQueue(mem.QueueConfig{}), "secret", func([]carillon.RunID) {})
	for name, header := range map[string]string{
		"without a token": "", "with another": "Bearer other", "with a part of it": "Bearer secre",
		"with an empty one": "Bearer ",
	} {
		r := httptest.NewRequest(http.MethodPost, carrierPath, strings.NewReader(""))
		if header != "" {
			r.Header.Set("Authorization", header)
		}
		w := httptest.NewRecorder()
		handler(w, r)
		if w.Code != http.StatusUnauthorized {
			t.Errorf("%s: answered %d", name, w.Code)
		}
	}
	r := httptest.NewRequest(http.MethodPost, carrierPath, strings.NewReader("")) // no question
	r.Header.Set("Authorization", "Bearer secret")
	w := httptest.NewRecorder()
	handler(w, r)
	if w.Code != http.StatusBadRequest {
		t.Errorf("with the token: answered %d", w.Code)
	}
}
