package main

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sluice-push/sluice/examples/internal/run"
	"github.com/sluice-push/sluice/rpc/frame"
)

const (
	maxMethods = 100 // that are counted each; clients could make up any number
	maxReasons = 10  // that are printed between two lines
	others     = "others"
)

// sums are how much was forwarded.
type sums struct {
	calls, answers uint64 // one-way calls are calls, exceptions are answers
	bytes          uint64
}

func (s sums) String() string {
	return fmt.Sprintf("%d calls, %d answers, %.1f MB", s.calls, s.answers, float64(s.bytes)/1e6)
}

// counts are what the proxy prints.
type counts struct {
	trace bool // print each frame

	mu      sync.Mutex
	sums    sums
	clients int
	failed  int               // connections that did not end in order
	printed int               // reasons since the last line
	methods map[string]uint64 // calls since the last line
}

// frameLocked counts a frame.
func (c *counts) frameLocked(from string, f *frame.Frame, size int) {
	c.sums.bytes += uint64(size)
	switch {
	case from == "client" && (isCall(f.Kind) || f.Kind == frame.OneWay):
		c.sums.calls++
		c.methodLocked(f.Method)
	case from == "server" && isAnswer(f):
		c.sums.answers++
	}
	if c.trace {
		run.Say("%s: %v %s, sequence %d, %v, %d bytes", from, f.Kind, printable(string(f.Method)), f.Sequence, f.Dialect, size)
	}
}

func (c *counts) methodLocked(name []byte) {
	if _, ok := c.methods[string(name)]; !ok {
		if c.methods == nil {
			c.methods = make(map[string]uint64)
		}
		if len(c.methods) >= maxMethods {
			name = []byte(others)
		}
	}
	c.methods[string(name)]++
}

// begin counts a client, until end.
func (c *counts) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clients++
}

func (c *counts) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clients--
}

// refused says why a connection did not end in order, unless there are too many such lines.
func (c *counts) refused(client net.Conn, reason error) {
	c.mu.Lock()
	c.failed++
	c.printed++
	said := c.printed <= maxReasons
	c.mu.Unlock()
	if said {
		run.Say("client %v: %v", client.RemoteAddr(), reason)
	}
}

// sum returns all sums.
func (c *counts) sum() sums {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sums
}

// print prints a line at an interval until stop is closed.
func (c *counts) print(interval time.Duration, stop <-chan struct{}) {
	if interval == 0 {
		return
	}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	before, since := sums{}, time.Now()
	for {
		select {
		case <-stop:
			return
		case now := <-ticker.C:
			var line string
			line, before = c.line(before, now.Sub(since))
			since = now
			run.Say("%s", line)
		}
	}
}

// line returns the line of an interval, and the sums for the next one.
func (c *counts) line(before sums, took time.Duration) (string, sums) {
	c.mu.Lock()
	now, clients, failed, methods := c.sums, c.clients, c.failed, c.methods
	c.methods, c.printed = nil, 0
	c.mu.Unlock()
	rate := func(n uint64) float64 { return float64(n) / took.Seconds() }
	line := fmt.Sprintf("%.0f calls/s, %.0f answers/s, %.1f MB/s, %d clients, %d failed", rate(now.calls-before.calls), rate(now.answers-before.answers),
		rate(now.bytes-before.bytes)/1e6, clients, failed)
	names := make([]string, 0, len(methods))
	for name := range methods {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(methods[b], methods[a]), cmp.Compare(a, b)) })
	for i, name := range names[:min(len(names), 5)] {
		names[i] = fmt.Sprintf("%s %.0f/s", printable(name), rate(methods[name]))
	}
	if names = names[:min(len(names), 5)]; len(names) > 0 {
		line += ": " + strings.Join(names, ", ")
	}
	return line, now
}

// printable is a name without anything that a terminal obeys.
func printable(name string) string {
	quoted := strconv.QuoteToASCII(name)
	return quoted[1 : len(quoted)-1]
}
