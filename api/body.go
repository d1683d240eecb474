package api

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/jobjson"
	"github.com/carillon-run/carillon/internal/wire"
)

// readJSON reads a whole body of JSON, undecoded.
func readJSON(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if err := checkContentType(r); err != nil {
		return nil, err
	}
	return readBody(w, r, limit)
}

func readBody(w http.ResponseWriter, r *http.Request, limit int64) (body []byte, err error) {
	var overLimit *http.MaxBytesError
	if r.ContentLength > limit { // the caller may never send all that it announces
		err = &http.MaxBytesError{Limit: limit}
	} else {
		body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	}
	if errors.As(err, &overLimit) {
		return nil, tooLarge(limit)
	}
	if err != nil {
		return nil, &carillon.FieldError{
			Field: "body", Given: "a body that ended early", Want: "a complete body", Wrong: "it ended early",
		}
	}
	if watched, ok := w.(*watch); ok {
		watched.bodyRead = true
	}
	return body, nil
}

func tooLarge(limit int64) error {
	given := fmt.Sprintf("more than %d bytes", limit)
	want := fmt.Sprintf("at most %d bytes (%d KiB)", limit, limit>>10)
	if limit > carillon.MaxPayload { // the payload is what makes a job large
		want += "; the payload of a job can have 256 KiB"
	}
	return problem{
		Type: "too-large", Title: "Too large", Status: http.StatusRequestEntityTooLarge,
		Fault: &carillon.FieldError{Field: "body", Given: given, Want: want, Wrong: "it has " + given},
	}
}

// readNothing is for routes without a body. Ignoring a body would silently drop what the caller asked for.
func readNothing(w http.ResponseWriter, r *http.Request) error {
	return readOptional(w, r, &struct{}{})
}

// readOptional decodes a JSON body, if there is one, over the value that into points to.
func readOptional(w http.ResponseWriter, r *http.Request, into any) error {
	if r.ContentLength == 0 {
		return nil
	}
	body, err := readBody(w, r, wire.MaxBody)
	if err != nil || len(bytes.TrimSpace(body)) == 0 {
		return err
	}
	if err := checkContentType(r); err != nil {
		return err
	}
	return jobjson.Decode(body, into)
}

func checkContentType(r *http.Request) error {
	given := r.Header.Get("Content-Type")
	media, params, err := mime.ParseMediaType(given)
	charset := params["charset"]
	if err != nil || media != "application/json" || charset != "" && !strings.EqualFold(charset, "utf-8") {
		return unsupported("Content-Type", given, "application/json")
	}
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return unsupported("Content-Encoding", encoding, "a body that is not compressed")
	}
	return nil
}

func unsupported(header, given, want string) error {
	return problem{
		Type: "unsupported-media-type", Title: "Unsupported media type",
		Status: http.StatusUnsupportedMediaType,
		Fault:  &carillon.FieldError{Field: header, Given: given, Want: want},
	}
}
