package api_test

import (
	"strings"
	"testing"
)

// BenchmarkSubmit is a submit over HTTP, from the bytes of the request to those of the answer, on a store in
// memory. Package jobjson says how often the payload is read.
func BenchmarkSubmit(b *testing.B) {
	line := `{"sku":"bell-3","n":2,"note":"two bells"},`
	for name, payload := range map[string]string{
		"payload=none":          `null`,
		"payload=64KiB-objects": `[` + strings.Repeat(line, 64<<10/len(line)) + `{}]`,
		"payload=64KiB-text":    `"` + strings.Repeat("two bells. ", 64<<10/11) + `"`,
	} {
		h := newHouse(b, nil)
		body := `{"type":"a","schedule":{"after":"1h"},"target":{"handler":{}},"payload":` + payload + `}`
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if answer := h.call("POST", "/v1/jobs", body); answer.Code != 201 {
					b.Fatal(answer.Code, answer.Body)
				}
			}
		})
	}
}
