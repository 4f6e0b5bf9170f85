package main

import (
	"context"
	"io"
	"strings"

	"github.com/sluice-push/sluice/bench/internal/compare"
	"github.com/sluice-push/sluice/bench/internal/load"
	"github.com/sluice-push/sluice/bench/internal/report"
	corepush "github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
)

// What tests of the command use.
var (
	Main        = main
	ServerNames = serverNames
)

// Run is the command line.
func Run(args []string, stdout io.Writer) error { return run(context.Background(), args, nil, stdout) }

// Judge judges what was measured in a cell, in its full size; memory is bytes for each of 10,000 subscribers.
func Judge(name string, rows []load.Summary, memory float64) []report.Target {
	r := &result{
		Result: compare.Result{Cells: map[string][]load.Summary{name: rows}},
		Memory: map[string][]footprint{name: {
			{Server: sluiceNATS, Steps: []step{{Subscribers: 10000, Collected: memory}, {Subscribers: 15000, Collected: 1}}},
		}},
	}
	for _, c := range cells(10000, 15000, spells{}, "") {
		if c.Name == name {
			return judge(r, []cell{c})
		}
	}
	return nil
}

// Chosen returns which of all servers are measured in a cell.
func Chosen(name string, named bool) []string {
	for _, c := range cells(10000, 15000, spells{}, "") {
		if c.Name == name {
			return c.servers(serverNames(), named)
		}
	}
	return nil
}

// Breakdown is what a profile comes to: in all, in writes, in collecting garbage, and the largest function of the rest.
func Breakdown(text, unit string, leaves bool) (figures [3]float64, largest string, err error) {
	all, err := parseTraces(strings.NewReader(text), unit)
	b := breakDown(all, leaves)
	if len(b.rest) > 0 {
		largest = b.rest[0].function
	}
	return [3]float64{b.total, b.writes, b.collects}, largest, err
}

// Arrive gives a gateway that acknowledges so many at a time publications of the first partition with these offsets, the last one changed. It returns what
// is acknowledged, and the offset of the last one.
func Arrive(every int, offsets []uint64, change func(*broker.Message)) (acknowledged []int64, last uint64, err error) {
	a := newArrivals(every, func(all int64) error {
		acknowledged = append(acknowledged, all)
		return nil
	})
	for i, offset := range offsets {
		m := broker.Message{Channel: linkChannels()[0], Publication: corepush.Publication{Offset: offset, Key: "row", Data: make([]byte, linkSize)}}
		if change != nil && i == len(offsets)-1 {
			change(&m)
		}
		a.partitions[0].Deliver([]broker.Message{m})
	}
	counts, err := a.counts()
	if err != nil {
		return nil, 0, err
	}
	return acknowledged, counts.Last[0], nil
}

// JudgeLinks judges a link that costs the hub and the gateway so many nanoseconds a publication.
func JudgeLinks(hub, gateway float64) []report.Target {
	shapes := linkShapes()
	return judgeLinks([]linkSample{{Shape: shapes[len(shapes)-1].String(), Peer: ourLink, Hub: hub, Gateway: gateway}})
}
