package metrics_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push/api"
	"github.com/sluice-push/sluice/push/metrics"
)

// TestScrape: all formats contain the same, and only Protobuf has the native histograms.
func TestScrape(t *testing.T) {
	p := newPlace(t)
	p.join(t, "a", "ticks:x", "quotes:x")
	p.join(t, "b", "ticks:x")
	for range 3 {
		p.publish(t, "ticks:x")
	}
	p.publish(t, "quotes:x")
	body := strings.NewReader(`{"channel":"nowhere:x","data":1}`)
	p.api.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPost, api.Prefix+"publish", body))
	testwait.True(t, "all is delivered", func() bool { return p.hub.Stats().Delivered == 7 })
	delays := func(f map[string]*dto.MetricFamily, path string) *dto.Histogram {
		return find(f["sluice_delivery_delay_seconds"], "path", path).GetHistogram()
	}
	testwait.True(t, "all is observed", func() bool { // one that came while its session was busy is read from the log
		f := scrape(t, p.metrics, asText)
		return delays(f, "live").GetSampleCount()+delays(f, "log").GetSampleCount() == 7
	})
	for _, form := range []string{asText, asProtobuf} {
		got := scrape(t, p.metrics, form)
		for _, want := range []struct {
			value  float64
			name   string
			labels []string
		}{
			{6, "sluice_deliveries_total", []string{"namespace", "ticks"}},
			{1, "sluice_deliveries_total", []string{"namespace", "quotes"}},
			{3, "sluice_publications_received_total", []string{"namespace", "ticks"}},
			{2, "sluice_subscriptions", []string{"namespace", "ticks"}},
			{2, "sluice_sessions", nil},
			{1, "sluice_ready", nil},
			{0, "sluice_limits_exceeded_total", []string{"limit", "sessions_per_user", "enforced", "true"}},
			{1, "sluice_api_requests_total", []string{"method", "publish", "outcome", "unknown_channel"}},
			{1, "sluice_broker_connected", []string{"kind", "memory"}},
			{1, "sluice_build_info", []string{"version", "v1"}},
			{0, "sluice_disconnects_total", []string{"transport", "uni_sse", "code", "3001"}},
			{0, "sluice_cluster_nodes", []string{"role", "all"}},
			{1, "sluice_cluster_nodes", []string{"role", "hub"}},
			{2, "sluice_cluster_nodes", []string{"role", "gateway"}},
			{1, "sluice_cluster_draining_nodes", nil},
			{5, "sluice_cluster_links", nil},
			{9, "sluice_cluster_clients_moved_total", nil},
		} {
			if v := value(got[want.name], want.labels...); v != want.value {
				t.Errorf("%s: %s%v = %v, want %v", form, want.name, want.labels, v, want.value)
			}
		}
		if got["go_goroutines"] == nil || got["process_cpu_seconds_total"] == nil {
			t.Error("nothing is said of the process")
		}
		h := delays(got, "live")
		if last := h.GetBucket()[len(h.GetBucket())-1]; h.GetSampleCount() == 0 || last.GetCumulativeCount() != h.GetSampleCount() {
			t.Errorf("%s: %v", form, h)
		}
		if isNative := len(h.GetPositiveSpan()) > 0 || h.GetZeroCount() > 0; isNative != (form == asProtobuf) {
			t.Errorf("%s: native buckets %t", form, isNative)
		}
	}
	w := ask(t, p.metrics, asOpenMetrics)
	if text := w.Body.String(); !strings.HasPrefix(w.Header().Get("Content-Type"), "application/openmetrics-text") ||
		!strings.HasSuffix(text, "# EOF\n") || !strings.Contains(text, `sluice_deliveries_total{namespace="ticks"} 6.0`) {
		t.Errorf("as OpenMetrics: %s", w.Header())
	}
}

// TestBeforeTheNode: while the node waits for its broker, the metrics of the process are exported, and that the node is not ready.
func TestBeforeTheNode(t *testing.T) {
	got := scrape(t, metrics.New(nil), asText)
	if value(got["sluice_ready"]) != 0 || got["go_goroutines"] == nil || got["sluice_sessions"] != nil {
		t.Errorf("%v", got)
	}
}

// TestUnderLoad: scrapes work under load.
func TestUnderLoad(t *testing.T) {
	p := newPlace(t)
	for i := range 100 {
		p.join(t, fmt.Sprint(i), "ticks:x", "quotes:x")
	}
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for range 500 {
				p.publish(t, "ticks:x")
				p.publish(t, "quotes:x")
			}
		})
	}
	wg.Go(func() {
		last := 0.0
		for range 50 {
			v := value(scrape(t, p.metrics, asProtobuf)["sluice_deliveries_total"], "namespace", "ticks")
			if v < last {
				t.Errorf("deliveries fell from %v to %v", last, v)
			}
			last = v
		}
	})
	testwait.Return(t, wg.Wait)
	testwait.True(t, "all is delivered or conflated", func() bool {
		s := p.hub.Stats()
		return s.Delivered+s.Conflated == 200_000 && s.Waiting == 0
	})
}

// TestLint: names and help texts are as Prometheus recommends.
func TestLint(t *testing.T) {
	p := newPlace(t)
	p.metrics.ObserveRequest("publish", 0)
	text := ask(t, p.metrics, asText).Body.String()
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	must(t, err)
	for _, problem := range problems {
		if strings.HasPrefix(problem.Metric, "sluice_") {
			t.Errorf("%s: %s", problem.Metric, problem.Text)
		}
	}
}

// row matches a metric in docs/metrics.md: name, type, labels.
var row = regexp.MustCompile("(?m)^\\| `(sluice_[a-z0-9_]+)` \\| (counter|gauge|histogram) \\|([^|]*)\\| [^|]{20,}\\|$")

// mention matches names in text and examples.
var mention = regexp.MustCompile(`sluice_[a-z0-9_]+`)

// TestDocumentation: every metric is documented, with its type and labels, and nothing else is.
func TestDocumentation(t *testing.T) {
	p := newPlace(t)
	p.metrics.ObserveRequest("publish", 0)
	exported := map[string]string{}
	for name, f := range scrape(t, p.metrics, asProtobuf) {
		if !strings.HasPrefix(name, "sluice_") {
			continue
		}
		var labels []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, "`"+l.GetName()+"`")
		}
		slices.Sort(labels)
		exported[name] = strings.ToLower(f.GetType().String()) + " " + strings.Join(labels, ", ")
	}
	text, err := os.ReadFile("../../docs/metrics.md")
	must(t, err)
	documented := map[string]string{}
	for _, m := range row.FindAllStringSubmatch(string(text), -1) {
		labels := strings.Split(strings.TrimSpace(m[3]), ", ")
		slices.Sort(labels)
		documented[m[1]] = m[2] + " " + strings.Join(labels, ", ")
	}
	for name, is := range exported {
		if documented[name] != is {
			t.Errorf("docs/metrics.md says %q of %s, which is %q", documented[name], name, is)
		}
	}
	for name := range documented {
		if exported[name] == "" {
			t.Errorf("docs/metrics.md has a row for %s, which is not exported", name)
		}
	}
	for _, name := range mention.FindAllString(string(text), -1) {
		plain := name
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			plain = strings.TrimSuffix(plain, suffix)
		}
		if exported[name] == "" && exported[plain] == "" {
			t.Errorf("docs/metrics.md mentions %s, which is not exported", name)
		}
	}
}

// BenchmarkScrape scrapes a node with 10,000 sessions, each with a subscription to a channel of its own and one to a common one.
func BenchmarkScrape(b *testing.B) {
	for _, sessions := range []int{0, 10_000} {
		b.Run(fmt.Sprintf("sessions=%d", sessions), func(b *testing.B) {
			p := newPlace(b)
			for i := range sessions {
				p.join(b, fmt.Sprint(i), fmt.Sprint("ticks:", i), "quotes:x")
			}
			r := httptest.NewRequestWithContext(b.Context(), http.MethodGet, metrics.Path, nil)
			r.Header.Set("Accept", asText)
			b.ReportAllocs()
			for b.Loop() {
				w := httptest.NewRecorder()
				p.metrics.ServeHTTP(w, r)
				_, _ = io.Copy(io.Discard, w.Body)
			}
		})
	}
}

// BenchmarkStats reads the counters of the hub and the gateway, as a scrape does.
func BenchmarkStats(b *testing.B) {
	for _, sessions := range []int{0, 10_000} {
		b.Run(fmt.Sprintf("sessions=%d", sessions), func(b *testing.B) {
			p := newPlace(b)
			for i := range sessions {
				p.join(b, fmt.Sprint(i), fmt.Sprint("ticks:", i), "quotes:x")
			}
			b.ReportAllocs()
			for b.Loop() {
				_, _ = p.hub.Stats(), p.gateway.Stats()
			}
		})
	}
}
