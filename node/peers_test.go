package node

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/mem"
)

func TestDueRunsAreGivenToNodesOfTheClusterOnly(t *testing.T) {
	queue := mem.NewQueue(mem.QueueConfig{})
	p := newPeers(queue, func() []string { return nil }, "secret", quiet)
	handler := p.handler(func([]carillon.RunID) {})
	for name, header := range map[string]string{
		"without a token": "", "with another": "Bearer other", "with a part of it": "Bearer secre",
		"with an empty one": "Bearer ",
	} {
		r := httptest.NewRequest(http.MethodPost, peersPath, strings.NewReader(""))
		if header != "" {
			r.Header.Set("Authorization", header)
		}
		w := httptest.NewRecorder()
		handler(w, r)
		if w.Code != http.StatusUnauthorized {
			t.Errorf("%s: answered %d", name, w.Code)
		}
	}
	r := httptest.NewRequest(http.MethodPost, peersPath, strings.NewReader("")) // its body is not a question
	r.Header.Set("Authorization", "Bearer secret")
	w := httptest.NewRecorder()
	handler(w, r)
	if w.Code != http.StatusBadRequest {
		t.Errorf("with the token: answered %d", w.Code)
	}
}
