package metrics

import (
	"log/slog"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sluice-push/sluice/push/api"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/cluster"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/hub"
)

// Path is the path of the metrics on the internal address.
const Path = "/metrics"

// scrapes is how many scrapes are answered at a time. Further ones are answered with status 503.
const scrapes = 4

// Options are settings of Metrics; the zero value is usable.
type Options struct {
	// Version is that of the node.
	Version string
	// Logger logs errors of scrapes; nil discards them.
	Logger *slog.Logger
}

// Sources are the parts of a node whose counters are exported. A nil field exports nothing.
type Sources struct {
	Hub     *hub.Hub
	Gateway *gateway.Gateway
	API     *api.Handler
	Broker  interface{ Stats() broker.Stats }
	// Tokens returns how many tokens of clients were refused, by reason, and how much is revoked.
	Tokens func() (refused map[string]uint64, revocations int)
	// Cluster has the members of the node's cluster, the number of connections of gateways to this node, and how many clients it has moved.
	Cluster Cluster
}

// Cluster is a node's part in a cluster.
type Cluster interface {
	// Set returns the members of the cluster.
	Set() *cluster.Set
	// Links returns how many connections of gateways there are to this node.
	Links() int
	// Moved returns how many clients the node has sent to other gateways because they belong there.
	Moved() uint64
}

// Metrics are a node's metrics. Before SetSources is called they contain those of the process only. All methods may be called concurrently.
type Metrics struct {
	version  string
	families *families
	handler  http.Handler
	sources  atomic.Pointer[Sources]

	passes, live, fromLog histogram

	mu       sync.Mutex
	requests map[string]*histogram // by method; guarded by mu
}

// New returns metrics without a node. The caller serves them as an http.Handler.
func New(o *Options) *Metrics {
	if o == nil {
		o = &Options{}
	}
	m := &Metrics{version: o.Version, families: newFamilies(), requests: map[string]*histogram{}}
	registry := prometheus.NewRegistry()
	registry.MustRegister(m, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	log := o.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	m.handler = promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		ErrorLog:            slog.NewLogLogger(log.Handler(), slog.LevelError),
		EnableOpenMetrics:   true,
		MaxRequestsInFlight: scrapes,
	})
	return m
}

// ServeHTTP implements http.Handler: it answers a scrape in the requested format, text, OpenMetrics or Protobuf. Only Protobuf has the native
// histograms.
func (m *Metrics) ServeHTTP(w http.ResponseWriter, r *http.Request) { m.handler.ServeHTTP(w, r) }

// SetSources exports the counters of s from now on, instead of those given before.
func (m *Metrics) SetSources(s Sources) { m.sources.Store(&s) }

// HubObserver returns a value for hub.Options.Observer.
func (m *Metrics) HubObserver() hub.Observer {
	return hub.Observer{
		BatchDone: func(took time.Duration, _ int) { m.passes.observe(took, 1) },
		Delivered: func(age time.Duration, n int, fromLog bool) {
			if fromLog {
				m.fromLog.observe(age, n)
			} else {
				m.live.observe(age, n)
			}
		},
	}
}

// ObserveRequest counts the duration of a request to the API. It is a value for api.Options.Observe.
func (m *Metrics) ObserveRequest(method string, took time.Duration) {
	m.mu.Lock()
	h := m.requests[method]
	if h == nil {
		h = &histogram{}
		m.requests[method] = h
	}
	m.mu.Unlock()
	h.observe(took, 1)
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range m.families.all {
		out <- d
	}
}

// Collect implements prometheus.Collector. It asks each source once.
func (m *Metrics) Collect(out chan<- prometheus.Metric) {
	fs, to := m.families, sink(out)
	to.number(fs.info, 1, m.version, runtime.Version())
	s := m.sources.Load()
	if s == nil {
		s = &Sources{}
	}
	ready := 0
	if s.Hub != nil && s.Gateway != nil && s.Gateway.Admits() == nil {
		ready = 1
	}
	to.number(fs.ready, float64(ready))
	if s.Hub != nil {
		m.collectHub(to, s.Hub.Stats())
	}
	if s.Gateway != nil {
		m.collectGateway(to, s.Gateway.Stats())
	}
	if s.Tokens != nil {
		refused, revocations := s.Tokens()
		for reason, n := range refused {
			to.number(fs.tokens, float64(n), reason)
		}
		to.number(fs.revocations, float64(revocations))
	}
	if s.API != nil {
		m.collectAPI(to, s.API.Stats())
	}
	if s.Broker != nil {
		m.collectBroker(to, s.Broker.Stats())
	}
	if s.Cluster != nil {
		m.collectCluster(to, s.Cluster)
	}
}
