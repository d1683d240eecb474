package carillon

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Target is what a job runs: exactly one of its fields is set.
type Target struct {
	Command *Command `json:"command,omitempty"`
	HTTP    *HTTP    `json:"http,omitempty"`
	Handler *Handler `json:"handler,omitempty"`
	// Workflow and Wait are performed by nodes, not by workers. Only a node of a workflow can be a Wait.
	Workflow *Workflow `json:"workflow,omitempty"`
	Wait     *Wait     `json:"wait,omitempty"`
}

// Command is a process: argv, or a line for /bin/sh.
type Command struct {
	Argv  []string          `json:"argv,omitempty"`
	Shell string            `json:"shell,omitempty"`
	Env   map[string]string `json:"env,omitempty"`
	Dir   string            `json:"dir,omitempty"`
	// FatalExitCodes end the run without another attempt. 0 is success, anything else is retriable.
	FatalExitCodes []int `json:"fatal_exit_codes,omitempty"`
}

// HTTP is a request. 2xx is success, 4xx is fatal except 408, 409, 425 and 429, anything else is retriable.
type HTTP struct {
	Method  string            `json:"method,omitempty"` // default POST
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers,omitempty"`
	// Body is a template with ${run.id}, ${payload.a.b} and the like (see template.go). Empty: the payload
	// itself.
	Body string `json:"body,omitempty"`
	// Sign signs the request. Default none.
	Sign *Sign `json:"sign,omitempty"`
}

// Handler is a function that a worker registered for the job's type.
type Handler struct{}

// Kind is the name of the field that is set, and what executors are registered under.
func (t Target) Kind() string {
	switch {
	case t.Command != nil:
		return "command"
	case t.HTTP != nil:
		return "http"
	case t.Handler != nil:
		return "handler"
	case t.Workflow != nil:
		return KindWorkflow
	case t.Wait != nil:
		return KindWait
	}
	return ""
}

// weight is how many bytes the texts of a target have, and one more for each item of a list or a map.
func (t *Target) weight() (n int) {
	if c := t.Command; c != nil {
		n += len(c.Shell) + len(c.Dir) + len(c.FatalExitCodes)
		for _, arg := range c.Argv {
			n += len(arg) + 1
		}
		for name, value := range c.Env {
			n += len(name) + len(value) + 1
		}
	}
	if h := t.HTTP; h != nil {
		n += len(h.Method) + len(h.URL) + len(h.Body)
		for name, value := range h.Headers {
			n += len(name) + len(value) + 1
		}
		if h.Sign != nil {
			n += len(h.Sign.Secret)
		}
	}
	if t.Workflow != nil {
		n += t.Workflow.weight()
	}
	if t.Wait != nil {
		n += len(t.Wait.Signal)
	}
	return n
}

// The kinds of targets whose runs no worker holds.
const (
	KindWorkflow = "workflow"
	KindWait     = "wait"
)

func (t *Target) admit() *FieldError {
	var set []string
	for _, kind := range []struct {
		name string
		is   bool
	}{
		{"command", t.Command != nil},
		{"handler", t.Handler != nil},
		{"http", t.HTTP != nil},
		{KindWorkflow, t.Workflow != nil},
		{KindWait, t.Wait != nil},
	} {
		if kind.is {
			set = append(set, kind.name)
		}
	}
	if len(set) != 1 {
		given := strings.Join(set, " and ")
		err := invalid("target", given, "exactly one of command, http, handler or workflow").
			because("none is given")
		if given != "" {
			err = err.because("%s are given", given)
		}
		return err
	}
	if t.Command != nil {
		if err := t.Command.admit(); err != nil {
			return err.In("target.command")
		}
	}
	if t.HTTP != nil {
		if err := t.HTTP.admit(); err != nil {
			return err.In("target.http")
		}
	}
	if t.Wait != nil {
		if err := t.Wait.admit(); err != nil {
			return err.In("target.wait")
		}
	}
	return nil
}

func (c *Command) admit() *FieldError {
	const either = `either "argv" (a list, program first) or "shell" (one line)`
	switch {
	case len(c.Argv) == 0 && c.Shell == "":
		return invalid("", "", either).because("neither argv nor shell is given")
	case len(c.Argv) > 0 && c.Shell != "":
		return invalid("", strings.Join(c.Argv, " ")+c.Shell, either).because("both argv and shell are given")
	}
	if len(c.Argv) > 0 && c.Argv[0] == "" {
		return invalid("argv", "", "a program as the first item").because("its first item is empty")
	}
	for _, arg := range append([]string{c.Shell, c.Dir}, c.Argv...) {
		if strings.ContainsRune(arg, 0) {
			return invalid("argv", arg, "text without NUL bytes")
		}
	}
	for key, value := range c.Env {
		if key == "" || strings.ContainsAny(key, "=\x00") || strings.ContainsRune(value, 0) {
			return invalid("env", key, "names without '=' and text without NUL bytes")
		}
		if strings.HasPrefix(key, "CARILLON_") {
			return invalid(
				"env", key, "a name that does not begin with CARILLON_; Carillon sets such names itself",
			)
		}
	}
	if c.Dir != "" && !strings.HasPrefix(c.Dir, "/") {
		return invalid("dir", c.Dir, "an absolute path")
	}
	for _, code := range c.FatalExitCodes {
		if code < 1 || code > 255 {
			return invalid("fatal_exit_codes", code, "numbers from 1 to 255")
		}
	}
	return nil
}

var httpMethods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}

func (h *HTTP) admit() *FieldError {
	if h.Method == "" {
		h.Method = http.MethodPost
	}
	if !slices.Contains(httpMethods, h.Method) {
		return invalid("method", h.Method, "one of %s", strings.Join(httpMethods, ", "))
	}
	u, err := url.Parse(h.URL)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return invalid("url", h.URL, "an absolute http:// or https:// URL")
	}
	if u.User != nil {
		return invalid(
			"url", u.Redacted(), "a URL without a user name or password; use the Authorization header",
		).because("it has a user name or password")
	}
	for name, value := range h.Headers {
		if !validHeaderName(name) || strings.ContainsAny(value, "\r\n\x00") {
			return invalid("headers", name, "header names of letters, digits and '-', values on one line")
		}
		if strings.HasPrefix(http.CanonicalHeaderKey(name), "Carillon-") {
			return invalid(
				"headers", name, "a name that does not begin with Carillon-; Carillon sets such names itself",
			)
		}
		if h.Sign != nil && strings.HasPrefix(http.CanonicalHeaderKey(name), "Webhook-") {
			return invalid("headers", name, "a name that does not begin with Webhook-: the signature does")
		}
	}
	if h.Sign != nil {
		if err := admitSecret(h.Sign.Secret); err != nil {
			return err.In("sign")
		}
	}
	var bad *templateError
	if _, err := parseTemplate(h.Body); errors.As(err, &bad) {
		return invalid("body", h.Body, "%s", bad.want).because("%s", bad.wrong)
	}
	return nil
}

func validHeaderName(s string) bool {
	for _, r := range s {
		if !strings.ContainsRune("!#$%&'*+-.^_`|~", r) && (r < '0' || r > '9') && (r < 'a' || r > 'z') &&
			(r < 'A' || r > 'Z') {
			return false
		}
	}
	return s != ""
}
