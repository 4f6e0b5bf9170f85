package main

import (
	"context"
	"io"
	"testing"
)

// What tests of the commands use.
var (
	Main        = main
	ServerNames = serverNames
)

// Run is the command line.
func Run(args []string, stdout io.Writer) error { return run(context.Background(), args, nil, stdout) }

// Framing is the codec of the servers on package session.
func Framing(echo bool) interface {
	Decode(in []byte) ([]byte, int, error)
} {
	return framing{protocol{echo: echo}}
}

// Serve starts a server process that runs until the test ends and returns its address.
func Serve(t *testing.T, p *Programs, server, proto string) string {
	t.Helper()
	b := &bench{programs: p.programs}
	var at address
	c, err := b.startServer(context.WithoutCancel(t.Context()), cell{echo: proto == "echo"}, server, &at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.stop(); err != nil {
			t.Error(err)
		}
	})
	return at.Addr
}

// Programs are the compiled programs in C.
type Programs struct{ *programs }

// Compile builds them for a test.
func Compile(t *testing.T) *Programs {
	t.Helper()
	p, err := compile()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.remove)
	return &Programs{p}
}

// Client sends one message of 100 bytes to a port and returns the error.
func (p *Programs) Client(port, proto string) error {
	c, err := start(context.Background(), nil, p.client, port, proto, "100")
	if err != nil {
		return err
	}
	defer func() { _ = c.stop() }() // it ends with an error when it finds one
	if err := c.ask(&struct{}{}, "connect 1"); err != nil {
		return err
	}
	return c.ask(new(load), "run 0 1 1 0 0 0")
}

// Quantiles returns p50, p99, p99.9 and the largest of a histogram.
func Quantiles(maximum int64, counts ...[2]int64) [4]int64 {
	h := histogram{Max: maximum, Counts: counts}
	l := h.latency()
	return [4]int64{l.P50, l.P99, l.P999, l.Max}
}

// Spread returns the median and the ends of values.
func Spread(values ...float64) [3]float64 {
	s := newSpread(values)
	return [3]float64{s.Median, s.Min, s.Max}
}

// Verdict says whether values, sorted, keep below a bound.
func Verdict(bound float64, values ...float64) string { return verdict(newSpread(values), bound) }

// Number prints a number for tables.
var Number = number
