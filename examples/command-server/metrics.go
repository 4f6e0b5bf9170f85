package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sluice-push/sluice/examples/internal/run"
)

// metrics returns what Prometheus sees: the server's own counters, read when somebody asks, and those of the runtime and the process.
func (srv *server) metrics() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "client_connected", Help: "Connections that are open now."},
			func() float64 { return float64(srv.Len()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "req_recv_total", Help: "Connects and submits received."},
			func() float64 { return float64(srv.received.Load()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "rsp_send_total", Help: "Answers sent."},
			func() float64 { return float64(srv.sent.Load()) }),
	)
	return registry
}

// web is the HTTP server for metrics and profiles. The zero value is none.
type web struct {
	http   http.Server
	served chan error
}

// serveWeb starts the HTTP server on an address, if that is not empty, and says where it is.
func serveWeb(address string, registry *prometheus.Registry) (*web, error) {
	w := new(web)
	if address == "" {
		return w, nil
	}
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	w.http.Handler, w.http.ReadHeaderTimeout, w.http.IdleTimeout = mux, 10*time.Second, 2*time.Minute
	w.served = make(chan error, 1)
	go func() { w.served <- w.http.Serve(ln) }()
	run.Say("metrics at http://%v/metrics", ln.Addr())
	return w, nil
}

// close ends the HTTP server, after the requests that are under way, and waits for it. A profile that is being taken is not waited
// for.
func (w *web) close(ctx context.Context) error {
	if w.served == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if err := w.http.Shutdown(ctx); err != nil {
		_ = w.http.Close()
	}
	if err := <-w.served; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
