package metrics_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"go.uber.org/goleak"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/api"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/broker/memory"
	"github.com/sluice-push/sluice/push/channel"
	"github.com/sluice-push/sluice/push/cluster"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/gateway/sse"
	wsclients "github.com/sluice-push/sluice/push/gateway/websocket"
	"github.com/sluice-push/sluice/push/hub"
	"github.com/sluice-push/sluice/push/metrics"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// place is a node without sockets, and its metrics.
type place struct {
	metrics *metrics.Metrics
	hub     *hub.Hub
	api     *api.Handler
	gateway *gateway.Gateway
}

func newPlace(t testing.TB) *place {
	t.Helper()
	b := memory.New(nil)
	m := metrics.New(&metrics.Options{Version: "v1"})
	space := func(name string, mode push.Mode) hub.Namespace {
		return hub.Namespace{Namespace: broker.Namespace{Name: name, Mode: mode, History: push.History{Size: 100}, Partitions: 1}}
	}
	h, err := hub.New(t.Context(), b, []hub.Namespace{space("ticks", push.Stream), space("quotes", push.Table)},
		&hub.Options{Observer: m.HubObserver()})
	must(t, err)
	p := &place{metrics: m, hub: h, gateway: gateway.New(h, nil, wsclients.New, sse.NewOneWay), api: api.New(h, &api.Options{Observe: m.ObserveRequest})}
	m.SetSources(metrics.Sources{
		Hub: h, Gateway: p.gateway, API: p.api, Broker: b,
		Tokens:  func() (map[string]uint64, int) { return map[string]uint64{"expired": 3}, 2 },
		Cluster: nodes{},
	})
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = p.gateway.Shutdown(ctx)
		must(t, h.Close())
		must(t, b.Close())
	})
	return p
}

// nodes are the nodes of a cluster: a hub with five links, and two gateways, one of which is draining.
type nodes struct{}

func (nodes) Set() *cluster.Set {
	set, _ := cluster.NewSet("", []cluster.Member{
		{ID: "h", Role: cluster.Hub}, {ID: "g1", Role: cluster.Gateway}, {ID: "g2", Role: cluster.Gateway, Draining: true},
	})
	return set
}

func (nodes) Links() int { return 5 }

func (nodes) Moved() uint64 { return 9 }

// The formats of a scrape.
const (
	asText        = "text/plain;version=0.0.4"
	asOpenMetrics = "application/openmetrics-text;version=1.0.0"
	asProtobuf    = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"
)

// ask scrapes in one of the formats.
func ask(t testing.TB, h http.Handler, accept string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, metrics.Path, nil)
	r.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	return w
}

// scrape returns the metrics in a format that can be decoded: text or Protobuf.
func scrape(t testing.TB, h http.Handler, accept string) map[string]*dto.MetricFamily {
	t.Helper()
	w := ask(t, h, accept)
	decoder := expfmt.NewDecoder(w.Body, expfmt.ResponseFormat(w.Header()))
	out := map[string]*dto.MetricFamily{}
	for {
		f := new(dto.MetricFamily)
		err := decoder.Decode(f)
		if errors.Is(err, io.EOF) {
			return out
		}
		must(t, err)
		out[f.GetName()] = f
	}
}

// find returns the metric with some labels, given as name and value in turn; nil if there is none.
func find(f *dto.MetricFamily, labels ...string) *dto.Metric {
next:
	for _, m := range f.GetMetric() {
		have := map[string]string{}
		for _, l := range m.GetLabel() {
			have[l.GetName()] = l.GetValue()
		}
		for i := 0; i < len(labels); i += 2 {
			if have[labels[i]] != labels[i+1] {
				continue next
			}
		}
		return m
	}
	return nil
}

// value returns the value of a counter or gauge, −1 if it is not there.
func value(f *dto.MetricFamily, labels ...string) float64 {
	switch m := find(f, labels...); {
	case m.GetCounter() != nil:
		return m.GetCounter().GetValue()
	case m.GetGauge() != nil:
		return m.GetGauge().GetValue()
	default:
		return -1
	}
}

// reader is a client that accepts everything.
type reader struct{}

func (reader) TryWrite(frames []hub.Frame) int { return len(frames) }

func (reader) Disconnect(push.Disconnect) {}

func (reader) FrameBytes() int { return 1 << 10 }

func (reader) AppendPublications(dst []byte, _ hub.Address, deliveries []channel.Delivery) []byte {
	for i := range deliveries {
		dst = append(dst, deliveries[i].Entry.Data...)
	}
	return dst
}

func (reader) AppendUnsubscribe(dst []byte, name string, _ push.Unsubscribe) []byte {
	return append(dst, name...)
}

// join connects a reader to some channels.
func (p *place) join(t testing.TB, id string, channels ...string) {
	t.Helper()
	s, err := p.hub.Connect(reader{}, reader{}, hub.SessionOptions{Info: push.ClientInfo{Client: id}})
	must(t, err)
	for _, name := range channels {
		must(t, s.Subscribe(t.Context(), hub.SubscribeRequest{Channel: name}, func(hub.Subscribed) error { return nil }))
	}
}

func (p *place) publish(t testing.TB, name string) {
	t.Helper()
	_, err := p.hub.Publish(t.Context(), name, push.Publication{Key: "k", Data: []byte("1")}, "")
	must(t, err)
}
