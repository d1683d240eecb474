package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/wire"
	"github.com/carillon-run/carillon/worker/protocol"
)

// DispatcherConfig says which servers a worker works for.
type DispatcherConfig struct {
	Servers []string // URLs of nodes, or of load balancers in front of them; at least one
	Token   string
	// HTTP makes the requests. Default: a separate client that uses no proxy, follows no redirects and speaks
	// HTTP/1.1.
	HTTP *http.Client
}

// Dispatcher is a protocol.Dispatcher on other machines. Its calls go to one node; when that node does not
// answer, they go to the next. It learns all nodes from the nodes that it talks to, so it survives the loss
// of any node, even of all servers in its config. It also keeps some nodes that are no longer listed, and
// tries them last. It resolves names again for each connection. Many goroutines can use it at once.
type Dispatcher struct {
	token string
	http  *http.Client

	mu    sync.Mutex
	nodes []*node // the current one first
}

var _ protocol.Dispatcher = (*Dispatcher)(nil)

// How long one try can take. A beat without an answer must leave time for another beat before the lease is
// over; a pull that is answered later begins nothing; reports can be large.
const (
	registerLimit = 5 * time.Second
	beatLimit     = 1500 * time.Millisecond
	pullLimit     = protocol.PullLate
	reportLimit   = 10 * time.Second
)

// NewDispatcher checks the addresses; it sends nothing.
func NewDispatcher(c DispatcherConfig) (*Dispatcher, error) {
	d := &Dispatcher{token: c.Token, http: cmp.Or(c.HTTP, dispatcherHTTP())}
	for _, server := range c.Servers {
		base, err := parseServer(server)
		if err != nil {
			return nil, err
		}
		d.nodes = append(d.nodes, &node{base: base, given: true})
	}
	if len(d.nodes) == 0 {
		return nil, errors.New("no server is given: want at least one URL, such as http://127.0.0.1:8420")
	}
	d.shuffle()
	return d, nil
}

func dispatcherHTTP() *http.Client {
	// With HTTP/2 all calls share one connection. If it dies silently, all calls fail until the kernel
	// notices.
	one := new(http.Protocols)
	one.SetHTTP1(true)
	return &http.Client{
		Transport: &http.Transport{
			DialContext:         (&net.Dialer{Timeout: beatLimit, KeepAlive: 5 * time.Second}).DialContext,
			TLSHandshakeTimeout: 3 * time.Second,
			MaxIdleConnsPerHost: 32, // pulls, reports and beats go side by side
			IdleConnTimeout:     time.Minute,
			Protocols:           one,
			DisableCompression:  true, // more work for both sides than the bytes are worth
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Register opens a session.
func (d *Dispatcher) Register(ctx context.Context, r protocol.Registration) (worker string, err error) {
	var answer wire.Registered
	err = d.call(
		ctx, registerLimit,
		request{method: http.MethodPost, path: "/v1/workers", body: wire.NewRegistration(r)},
		&answer,
	)
	if err == nil {
		d.learn(answer.Nodes)
	}
	return answer.Worker, err
}

// Pull asks one node only: a second node would claim runs in vain, because its answer can come too late for
// them to begin.
func (d *Dispatcher) Pull(ctx context.Context, p protocol.Pull) ([]protocol.Task, error) {
	var body []byte
	r := request{method: http.MethodPost, path: workerPath(p.Worker, "/pull"), body: wire.NewPull(p)}
	if err := d.try(ctx, d.order()[0], pullLimit, r, &body); err != nil {
		return nil, err
	}
	tasks, err := wire.ReadTasks(body, p.Worker)
	if err != nil {
		return nil, fmt.Errorf("read the answer to a pull: %w", err)
	}
	return tasks, nil
}

// Report sends as many reports at once as one message takes. A report that the server cannot understand must
// not hold up the others for ever: Report finds it by sending each alone, and reduces it to the fact that the
// server refused it.
func (d *Dispatcher) Report(
	ctx context.Context, worker string, reports []protocol.Report,
) ([]protocol.Receipt, error) {
	receipts := make([]protocol.Receipt, len(reports))
	pieces, of := cut(reports)
	for sent, most := 0, wire.MaxReports; sent < len(pieces); {
		body, n := wire.AppendReports(nil, pieces[sent:min(len(pieces), sent+most)])
		got, err := d.report(ctx, worker, body, n)
		switch {
		case errors.Is(err, carillon.ErrInvalid) && n > 1:
			most = 1
			continue
		case errors.Is(err, carillon.ErrInvalid) && hasFacts(&pieces[sent]):
			pieces[sent].End = withoutFacts(pieces[sent].End)
			continue
		case errors.Is(err, carillon.ErrInvalid) && reducible(&pieces[sent]):
			pieces[sent] = reduced(&pieces[sent], err)
			continue
		case err != nil:
			return nil, err
		}
		for i, receipt := range got {
			whole := &receipts[of[sent+i]]
			if *whole == "" || *whole == protocol.ReceiptRecorded || pieces[sent+i].End != nil {
				// The first piece that was not recorded speaks for all pieces. But an end speaks for
				// everything before it.
				*whole = receipt
			}
		}
		sent += n
	}
	return receipts, nil
}

func (d *Dispatcher) report(
	ctx context.Context, worker string, body []byte, n int,
) ([]protocol.Receipt, error) {
	var answer wire.Receipts
	err := d.call(
		ctx, reportLimit, request{method: http.MethodPost, path: workerPath(worker, "/report"), body: body},
		&answer,
	)
	if err == nil && len(answer.Receipts) != n {
		err = fmt.Errorf("%d receipts came for %d reports", len(answer.Receipts), n)
	}
	return answer.Receipts, err
}

// hasFacts says that the report tells an exit code or a status. A node of a version before these fields
// refuses them, and must still learn how the attempt ended.
func hasFacts(r *protocol.Report) bool { return r.End != nil && (r.End.Exit != 0 || r.End.Status != 0) }

func withoutFacts(o *carillon.Outcome) *carillon.Outcome {
	less := *o
	less.Exit, less.Status = 0, 0
	return &less
}

// reducible says that the report still has parts to leave out.
func reducible(r *protocol.Report) bool {
	return len(r.Lines) > 0 || r.Checkpoint != nil || r.Begun != 0 ||
		r.End != nil && (r.End.Output != nil || r.End.Kind != carillon.OutcomeFatal)
}

func reduced(r *protocol.Report, why error) protocol.Report {
	less := protocol.Report{Held: r.Held, Token: r.Token}
	if r.End != nil {
		less.End = &carillon.Outcome{
			Kind:   carillon.OutcomeFatal,
			Reason: "the server refused what the worker reported: " + why.Error(),
		}
	}
	return less
}

// Beat prolongs the session, and learns the current nodes.
func (d *Dispatcher) Beat(ctx context.Context, b carillon.Beat) (protocol.Orders, error) {
	var answer wire.Orders
	body := wire.AppendBeat(make([]byte, 0, 48+80*len(b.Holds)), &b)
	err := d.call(
		ctx, beatLimit,
		request{method: http.MethodPost, path: workerPath(b.ID, "/beat"), body: body}, &answer,
	)
	if err != nil {
		return protocol.Orders{}, err
	}
	d.learn(answer.Nodes)
	return answer.Orders(), nil
}

// Leave ends the session.
func (d *Dispatcher) Leave(ctx context.Context, worker string) error {
	return d.call(ctx, beatLimit, request{method: http.MethodDelete, path: workerPath(worker, "")}, nil)
}

func workerPath(worker, action string) string {
	return "/v1/workers/" + url.PathEscape(worker) + action
}

// parseServer is strict, so that a mistake shows at the start and not in every call.
func parseServer(server string) (*url.URL, error) {
	base, err := url.Parse(strings.TrimSpace(server))
	if err != nil || base.Host == "" || (base.Scheme != "http" && base.Scheme != "https") {
		return nil, fmt.Errorf("%q is not valid: want a server's URL, such as http://127.0.0.1:8420", server)
	}
	return base, nil
}
