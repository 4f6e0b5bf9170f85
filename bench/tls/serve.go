package main

import (
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lxzan/gws"

	"github.com/sluice-push/sluice/bench/internal/server"
)

// The servers besides sluice.
const (
	gwsServer  = "gws"      // net/http, crypto/tls and a goroutine for each WebSocket
	httpServer = "net/http" // ListenAndServeTLS
)

// serve is the process of a server besides sluice.
func serve(args []string, stdin io.Reader, stdout io.Writer) error {
	p := server.NewProcess()
	cert := p.Flags().String("cert", "", "the file of the certificate; empty: no TLS")
	key := p.Flags().String("key", "", "the file of its key")
	return p.Run(args, stdin, stdout, func(name string, ln net.Listener) (*server.Served, error) {
		switch name {
		case httpServer:
			return startHTTP(ln, *cert, *key, http.NotFoundHandler(), func() {}), nil
		case gwsServer:
			g := new(sockets)
			return startHTTP(ln, *cert, *key, g.handler(), g.closeAll), nil
		}
		return nil, server.Unknown(name)
	})
}

// startHTTP starts a server of net/http. A WebSocket connection leaves net/http; after closes these.
func startHTTP(ln net.Listener, cert, key string, h http.Handler, after func()) *server.Served {
	var conns atomic.Int64
	s := &http.Server{
		Handler: h, ReadHeaderTimeout: time.Minute,
		ConnState: func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				conns.Add(1)
			case http.StateClosed:
				conns.Add(-1)
			case http.StateActive, http.StateIdle, http.StateHijacked:
			}
		},
	}
	done := make(chan error, 1)
	go func() {
		if cert == "" {
			done <- s.Serve(ln)
			return
		}
		done <- s.ServeTLS(ln, cert, key)
	}()
	return &server.Served{Conns: func() int { return int(conns.Load()) }, Close: func() {
		_ = s.Close()
		<-done
		after()
	}}
}

// sockets are WebSocket connections of gws.
type sockets struct {
	gws.BuiltinEventHandler
	mu    sync.Mutex
	open  map[*gws.Conn]struct{} // nil from closeAll on
	loops sync.WaitGroup
}

// handler upgrades each request, and reads in a goroutine of the connection's own, so that nothing of the request is kept.
func (s *sockets) handler() http.Handler {
	s.open = make(map[*gws.Conn]struct{})
	upgrader := gws.NewUpgrader(s, nil)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := upgrader.Upgrade(w, r)
		if err != nil {
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.open == nil {
			_ = c.NetConn().Close()
			return
		}
		s.open[c] = struct{}{}
		s.loops.Go(c.ReadLoop)
	})
}

// OnClose forgets a connection.
func (s *sockets) OnClose(c *gws.Conn, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, c)
}

// closeAll ends all connections and waits for their goroutines.
func (s *sockets) closeAll() {
	s.mu.Lock()
	for c := range s.open {
		_ = c.NetConn().Close()
	}
	s.open = nil
	s.mu.Unlock()
	s.loops.Wait()
}
