package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/sluice-push/sluice/bench/internal/child"
	"github.com/sluice-push/sluice/bench/internal/load"
	"github.com/sluice-push/sluice/bench/internal/report"
)

// firstClients come before the rest, so that code and tables of the server are not counted.
const firstClients = 100

// weight is the memory of a server and of the kernel at one time, in bytes.
type weight struct {
	resident  int64 // of the process
	collected int64 // the same after garbage was collected and what is not used was given back
	kernel    int64 // of the machine: what the kernel has allocated for its own objects, and what TCP holds
}

// memory measures what an idle client costs each server, one after the other.
func (c *costs) memory(ctx context.Context) (*report.Table, error) {
	t := &report.Table{
		Title: fmt.Sprintf("KB for each of %d idle WebSocket clients", c.clients),
		Head:  []string{"server", "process", "process after GC", "kernel, both sides"},
		Note: fmt.Sprintf("From %d to %d clients, which have rested for %v. Those of sluice are connected and subscribed to a channel. The kernel's memory is that of the "+
			"machine, so half of it is the client's.", firstClients, c.clients, c.rest),
	}
	for _, s := range []struct {
		title  string
		secure bool
		start  func() (*peer, error)
	}{
		{"sluice, TLS", true, func() (*peer, error) { return c.startNode(true) }},
		{"sluice", false, func() (*peer, error) { return c.startNode(false) }},
		{"net/http, crypto/tls, gws", true, func() (*peer, error) { return c.startOther(ctx, gwsServer, true) }},
		{"net/http, gws", false, func() (*peer, error) { return c.startOther(ctx, gwsServer, false) }},
	} {
		p, err := s.start()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.title, err)
		}
		w, err := c.footprint(ctx, p, s.secure)
		if err = errors.Join(err, p.stop()); err != nil {
			return nil, fmt.Errorf("%s: %w", s.title, err)
		}
		kilobytes := func(v int64) string { return fmt.Sprintf("%.2f", float64(v)/1000) }
		t.Add(s.title, kilobytes(w.resident), kilobytes(w.collected), kilobytes(w.kernel))
	}
	return t, nil
}

// footprint returns what each client costs a server.
func (c *costs) footprint(ctx context.Context, p *peer, secure bool) (weight, error) {
	all := &clients{peer: p, workers: c.workers}
	if secure {
		all.config = c.certificate.config()
	}
	defer all.closeAll()
	var before, after weight
	for _, step := range []struct {
		clients int
		weight  *weight
	}{{firstClients, &before}, {c.clients, &after}} {
		err := all.grow(ctx, step.clients)
		if err == nil {
			err = load.Pause(ctx, c.rest)
		}
		if err == nil {
			*step.weight, err = weigh(p)
		}
		if err != nil {
			return weight{}, p.why(err)
		}
	}
	each := func(v int64) int64 { return v / int64(c.clients-firstClients) }
	return weight{each(after.resident - before.collected), each(after.collected - before.collected), each(after.kernel - before.kernel)}, nil
}

// weigh weighs a server that rests.
func weigh(p *peer) (w weight, err error) {
	if w.kernel, err = kernelMemory(); err != nil {
		return w, err
	}
	if w.resident, err = child.Resident(p.pid); err != nil {
		return w, err
	}
	s, err := p.gc()
	if err != nil {
		return w, err
	}
	w.collected, err = child.Resident(p.pid)
	w.collected -= s.Unused
	return w, err
}

// kernelMemory returns how much memory the kernel of this machine has allocated for objects of its own, sockets among them, and for the buffers of TCP.
func kernelMemory() (int64, error) {
	slab, err := figure("/proc/meminfo", "Slab:", 1)
	if err != nil {
		return 0, err
	}
	pages, err := figure("/proc/net/sockstat", "TCP:", 10)
	return slab<<10 + pages*int64(os.Getpagesize()), err
}

// figure returns one of the numbers in the line of a file that begins with name, which is the column before the first.
func figure(file, name string, column int) (int64, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(text) {
		if fields := bytes.Fields(line); len(fields) > column && string(fields[0]) == name {
			return strconv.ParseInt(string(fields[column]), 10, 64)
		}
	}
	return 0, fmt.Errorf("%s does not say %s", file, name)
}
