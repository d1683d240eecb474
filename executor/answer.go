package executor

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/carillon-run/carillon"
)

// answered is the class of a response: the target's own word if it gives one, else the class of the status.
func answered(task Task, response *http.Response) carillon.Outcome {
	o := byStatus(response)
	switch said := strings.ToLower(response.Header.Get("Carillon-Outcome")); said {
	case "":
	case "success":
		o = carillon.Outcome{Kind: carillon.OutcomeSuccess}
	case "retriable":
		o.Kind, o.Reason = carillon.OutcomeRetriable, "the target says retriable: "+statusText(response)
	case "fatal":
		o.Kind, o.Reason = carillon.OutcomeFatal, "the target says fatal: "+statusText(response)
	default:
		task.remark("Carillon-Outcome: %q is ignored: want success, retriable or fatal", said)
	}
	if o.Kind != carillon.OutcomeSuccess { // a rule of the job can retry what is fatal here
		o.Status = uint16(response.StatusCode)
		o.RetryAfter = retryAfter(response.Header.Get("Retry-After"), time.Now())
	}
	return o
}

func byStatus(response *http.Response) carillon.Outcome {
	switch status := response.StatusCode; {
	case status >= 200 && status < 300:
		return carillon.Outcome{Kind: carillon.OutcomeSuccess}
	case status >= 300 && status < 400:
		return fatal(
			"%s: redirects are not followed, this one leads to %q", statusText(response), location(response),
		)
	case status == http.StatusRequestTimeout, status == http.StatusConflict, status == http.StatusTooEarly,
		status == http.StatusTooManyRequests:
		return retriable("%s", statusText(response))
	case status >= 400 && status < 500:
		return fatal("%s", statusText(response))
	default:
		return retriable("%s", statusText(response))
	}
}

func statusText(response *http.Response) string {
	return strings.TrimSpace("HTTP " + strconv.Itoa(response.StatusCode) + " " + http.StatusText(
		response.StatusCode,
	))
}

func location(response *http.Response) string {
	given := response.Header.Get("Location")
	u, err := url.Parse(given)
	if err != nil || given == "" {
		return given
	}
	return shown(response.Request.URL.ResolveReference(u))
}

// maxRetryAfter bounds the wait that a target can ask for: more than a day is more likely a mistake than a
// wish.
const maxRetryAfter = 24 * time.Hour

// retryAfter reads seconds or an HTTP date. It treats a value that it cannot read as no wish.
func retryAfter(value string, now time.Time) time.Duration {
	value = strings.TrimSpace(value)
	if value == "" {
		return 0
	}
	if strings.Trim(value, "0123456789") == "" {
		seconds, err := strconv.Atoi(value)
		if err != nil || seconds > int(maxRetryAfter/time.Second) {
			return maxRetryAfter
		}
		return time.Duration(seconds) * time.Second
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), maxRetryAfter)
}

// saveCheckpoint saves the checkpoint that a response carries. It has its own time limit: the response has
// come, and the attempt may be timing out.
func saveCheckpoint(ctx context.Context, task Task, header string) {
	if header == "" {
		return
	}
	checkpoint, err := base64.StdEncoding.DecodeString(header)
	if err == nil {
		saving, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		err = task.save(saving, checkpoint)
	}
	if err != nil {
		task.remark("the checkpoint in the response is not saved: %s", err)
	}
}
