package jobjson

import (
	"strings"
	"testing"

	"github.com/carillon-run/carillon"
)

// BenchmarkDefine is what a submit costs between the body and the ledger.
func BenchmarkDefine(b *testing.B) {
	order := `{"id":8231,"customer":"Ada Lovelace","paid":true,"lines":[{"sku":"bell-3","n":2},{"sku":"rope","n":1}]}`
	for name, payload := range map[string]string{
		"payload=200B": `{"orders":[` + order + `],"note":"` + strings.Repeat("two bells. ", 7) + `"}`,
		"payload=200KiB-objects": `{"orders":[` +
			strings.Repeat(order+",", 200<<10/(len(order)+1)) + order + `]}`,
		"payload=200KiB-text": `{"note":"` + strings.Repeat("two bells. ", 200<<10/11) + `"}`,
	} {
		body := []byte(`{"name":"charge","queue":"billing","labels":{"team":"a"},"payload":` + payload +
			`,"target":{"http":{"url":"https://example.com/hook","headers":{"X-Team":"a"}}},"schedule":{"after":"5s"}}`)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Define(body, carillon.Time(1e12)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
