package main

import (
	"io"
	"net"

	"github.com/sluice-push/sluice/bench/internal/load"
	"github.com/sluice-push/sluice/bench/internal/server"
)

// The servers, as tables call them.
const (
	oneThread    = load.Limit + "1"
	twoThreads   = load.Limit + "2"
	sluiceNATS   = "sluice"        // with NATS JetStream embedded, which is the default
	sluiceMemory = "sluice-memory" // with the broker that keeps everything in memory
	plainHub     = "hub"
	natsServer   = "nats"
)

// The modules of the others.
const (
	gorillaModule = "github.com/gorilla/websocket"
	natsModule    = "github.com/nats-io/nats-server/v2"
)

// serverNames are all servers, in the order of tables.
func serverNames() []string {
	return []string{oneThread, twoThreads, sluiceNATS, sluiceMemory, plainHub, natsServer}
}

// ours are the servers that are judged.
func ours() []string { return []string{sluiceNATS, sluiceMemory} }

// dialects are what the client calls that which servers speak.
func dialects() map[string]string {
	return map[string]string{
		oneThread: "plain", twoThreads: "plain", plainHub: "plain",
		sluiceNATS: "centrifuge", sluiceMemory: "centrifuge", natsServer: "nats",
	}
}

// serve is the process of a server in Go, or that which looks after one of sluice, or of a hub or gateway of the cell called link.
func serve(args []string, stdin io.Reader, stdout io.Writer) error {
	if len(args) > 0 && args[0] == "hub" {
		return linkHub(args[1:], stdin, stdout)
	}
	if len(args) > 0 && args[0] == "gateway" {
		return linkGateway(args[1:], stdin, stdout)
	}
	p := server.NewProcess()
	binary := p.Flags().String("sluice", "", "the command sluice")
	bus := p.Flags().String("bus", "", "the address of a NATS server that connects several hubs")
	patient := p.Flags().Bool("patient", false, "sluice neither pings nor cuts clients that do not read")
	return p.Run(args, stdin, stdout, func(name string, ln net.Listener) (*server.Served, error) {
		switch name {
		case plainHub:
			return startHub(ln, *bus)
		case natsServer:
			return instead(ln, startNATS)
		case sluiceNATS, sluiceMemory:
			return instead(ln, func() (*server.Served, error) { return startSluice(*binary, brokerOf(name), *patient) })
		default:
			return nil, server.Unknown(name)
		}
	})
}

// brokerOf is what the configuration calls the broker of one of our servers.
func brokerOf(name string) string {
	if name == sluiceMemory {
		return "memory"
	}
	return "nats"
}

// instead starts a server that listens for itself, and closes the listener that it does not need.
func instead(ln net.Listener, start func() (*server.Served, error)) (*server.Served, error) {
	s, err := start()
	if err != nil {
		return nil, err
	}
	if err := ln.Close(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}
