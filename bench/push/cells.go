package main

import (
	"fmt"
	"strings"

	"github.com/sluice-push/sluice/bench/internal/load"
)

// cell is one workload.
type cell struct {
	load.Work
	title    string
	kind     kind
	windows  int // how many times -seconds it is measured for
	each     int // channels that each client subscribes to
	channels int
	steps    []int // for memory and growing: numbers of subscribers
	spells   spells
}

// kind is what is measured in a cell.
type kind int

const (
	steady  kind = iota // rate, CPU and latency while there are publications
	memory              // what subscribers need of memory
	growing             // what deliveries cost as subscribers become more
	stalls              // what those cost that do not read
	storms              // how soon all are back that were cut
	links               // what a publication costs from a hub to a gateway
	tiers               // what deliveries cost all processes of several servers together
	cores               // what a server delivers with one processor, and with two
)

const (
	dataSize    = 256   // bytes of a publication's data
	marketEach  = 20    // channels of a client of the market
	marketFans  = 50    // clients of a channel of the market, on average
	memoryConns = 10000 // where memory is judged
)

// cells are all workloads, in the order of tables, for a command sluice. Where there are many clients they are conns, or in
// proportion; memory and costs are looked at until there are most.
func cells(conns, most int, long spells, binary string) []cell {
	steps := upTo(most)
	list := []cell{
		{Work: load.Work{Name: "one10k", Conns: conns, Rate: 1}, windows: 10},
		{Work: load.Work{Name: "one15k", Conns: conns * 3 / 2, Rate: 4}, windows: 4},
		{Work: load.Work{Name: "hundred", Conns: conns, Rate: 10}, windows: 5},
		{Work: load.Work{Name: "closed1", Conns: conns, InFlight: 1, Pinned: true}, windows: 2},
		{Work: load.Work{Name: "closed32", Conns: conns, InFlight: 32, Pinned: true}, windows: 4},
		{Work: load.Work{Name: "one1k", Conns: conns / 10, InFlight: 4}, windows: 2},
		{Work: load.Work{Name: "market500", Conns: conns / 2, Rate: 500}, windows: 4, each: marketEach},
		{Work: load.Work{Name: "market2000", Conns: conns / 2, Rate: 2000}, windows: 4, each: marketEach},
		{Work: load.Work{Name: "memory", InFlight: 1}, kind: memory, steps: steps},
		{Work: load.Work{Name: "memory-market", InFlight: 1}, kind: memory, steps: []int{max(most/3, 1)}, each: marketEach},
		{Work: load.Work{Name: "grow", InFlight: 1}, kind: growing, steps: steps, windows: 1},
		{Work: load.Work{Name: "storm", Conns: conns, Rate: 1}, kind: storms, windows: 6},
		{Work: load.Work{Name: "stalled", Conns: conns / 2, Rate: 2000}, kind: stalls, spells: long, each: marketEach},
		{Work: load.Work{Name: "link"}, kind: links},
		{Work: load.Work{Name: "tiers", Conns: conns, Rate: 1}, kind: tiers, windows: 10},
		{Work: load.Work{Name: "cores", Conns: conns}, kind: cores, windows: 3},
	}
	for i := range list {
		c := &list[i]
		c.Kind, c.Size = load.Push, dataSize
		c.Conns = max(c.Conns, 1)
		c.each, c.channels = max(c.each, 1), 1
		if c.each > 1 {
			clients := c.Conns
			if c.kind == memory {
				clients = c.steps[0]
			}
			c.channels = max(clients*c.each/marketFans, c.each)
		}
		c.Protos = dialects()
		c.Client = []string{fmt.Sprint(c.each), fmt.Sprint(c.channels)}
		c.Args = load.Args{Limit: []string{"push"}, Go: []string{"-sluice", binary}}
		if c.kind == stalls {
			c.Args.Go = append(c.Args.Go, "-patient")
		}
		c.title = c.describe()
	}
	return list
}

// upTo are the numbers of subscribers at which costs are looked at: 1,000 to 15,000 if there are most 15,000.
func upTo(most int) []int {
	var steps []int
	for _, thousands := range []int{1, 2, 5, 10, 15} {
		if n := max(most*thousands/15, 1); len(steps) == 0 || n > steps[len(steps)-1] {
			steps = append(steps, n)
		}
	}
	return steps
}

// describe says what a cell does.
func (c *cell) describe() string {
	subscribed := "one channel"
	if c.each > 1 {
		subscribed = fmt.Sprintf("%d of %d channels each", c.each, c.channels)
	}
	switch c.kind {
	case memory:
		return "bytes of memory for each subscriber, " + subscribed
	case growing:
		return "CPU µs for each delivery of a server with so many subscribers, one publication of 256 B under way"
	case links:
		return fmt.Sprintf("a publication of %d B from a hub to a gateway, a process each, %d partitions", linkSize, linkPartitions)
	case tiers:
		return fmt.Sprintf("publications of %d B to subscribers of one channel at several servers, %d a second", c.Size, c.Rate)
	case cores:
		return fmt.Sprintf("publications of %d B to %d subscribers of one channel, the server on one processor and on two", c.Size, c.Conns)
	default:
	}
	if c.kind == storms {
		subscribed += ", all cut at once"
	}
	if c.kind == stalls {
		subscribed += fmt.Sprintf(", of which %d read nothing for %v", c.stalled(), c.spells.stall)
	}
	what := fmt.Sprintf("publications of %d B to %d subscribers of %s", c.Size, c.Conns, subscribed)
	if c.Rate > 0 {
		return fmt.Sprintf("%s, %d a second", what, c.Rate)
	}
	what = fmt.Sprintf("%s, %d under way", what, c.InFlight)
	if c.Pinned {
		what += ", the server on one processor"
	}
	return what
}

// servers returns those of the wanted that are measured. On one processor a second thread makes no sense, unless it was asked for by name. What waits
// for each client in turn, as the loops in C do and the hub in the end, stands still for good when one does not read. Only ours know what
// a client missed. The cells called link and tiers have peers of their own.
func (c cell) servers(wanted []string, named bool) []string {
	switch c.kind {
	case links:
		return linkPeers()
	case tiers:
		return tierSetups()
	default:
	}
	var all []string
	for _, s := range wanted {
		dialect := dialects()[strings.TrimSuffix(s, load.AtBefore)]
		switch {
		case c.kind == stalls && dialect == "plain", c.kind == storms && dialect != "centrifuge":
		case s != twoThreads || named || c.kind == steady && !c.Pinned:
			all = append(all, s)
		}
	}
	return all
}
