package main

import (
	"errors"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	bench "github.com/sluice-push/sluice/bench/internal/server"
)

// startNATS starts the NATS server with a listener for WebSocket clients and everything else as it is by default.
func startNATS() (*bench.Served, error) {
	const loopback = "127.0.0.1"
	s, err := server.NewServer(&server.Options{
		Host: loopback, Port: server.RANDOM_PORT, NoLog: true, NoSigs: true,
		Websocket: server.WebsocketOpts{Host: loopback, Port: server.RANDOM_PORT, NoTLS: true},
	})
	if err != nil {
		return nil, err
	}
	s.Start()
	stop := func() {
		s.Shutdown()
		s.WaitForShutdown()
	}
	if !s.ReadyForConnections(10 * time.Second) {
		stop()
		return nil, errors.New("the NATS server did not start")
	}
	return &bench.Served{Conns: s.NumClients, Close: stop, Addr: strings.TrimPrefix(s.WebsocketURL(), "ws://")}, nil
}
