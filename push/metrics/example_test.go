package metrics_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/broker/memory"
	"github.com/sluice-push/sluice/push/hub"
	"github.com/sluice-push/sluice/push/metrics"
)

// The metrics of a hub are observed, exported and scraped.
func Example() {
	m := metrics.New(&metrics.Options{Version: "v1"})
	b := memory.New(nil)
	defer func() { _ = b.Close() }()
	news := hub.Namespace{Namespace: broker.Namespace{Name: "news", Mode: push.Stream, Partitions: 1}}
	h, err := hub.New(context.Background(), b, []hub.Namespace{news}, &hub.Options{Observer: m.HubObserver()})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = h.Close() }()
	m.SetSources(metrics.Sources{Hub: h, Broker: b})
	if _, err := h.Publish(context.Background(), "news:x", push.Publication{Data: []byte("1")}, ""); err != nil {
		fmt.Println(err)
		return
	}

	w := httptest.NewRecorder()
	m.ServeHTTP(w, httptest.NewRequest(http.MethodGet, metrics.Path, nil))
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, "sluice_publications_accepted_total") || strings.HasPrefix(line, "sluice_broker_connected") {
			fmt.Print(line)
		}
	}
	// Output:
	// sluice_broker_connected{kind="memory"} 1
	// sluice_publications_accepted_total{namespace="news"} 1
}
