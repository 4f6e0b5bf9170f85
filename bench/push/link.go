package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/sluice-push/sluice/bench/internal/child"
	"github.com/sluice-push/sluice/bench/internal/load"
	"github.com/sluice-push/sluice/bench/internal/measure"
	"github.com/sluice-push/sluice/bench/internal/report"
)

// The peers of the cell called link: what brings publications from a hub to a gateway.
const (
	ourLink     = "link"         // push/link and push/broker/link
	grpcSingle  = "grpc"         // grpc-go, server streaming, a message for each publication
	grpcBatched = "grpc-batched" // the same, a message for all publications that wait
	rawBytes    = "raw"          // writes and reads of so many bytes, without any decoding: the limit
	memoryAlone = "memory-alone" // what publishing to the memory broker costs, without a gateway
)

// linkPeers are the peers in the order of the table.
func linkPeers() []string { return []string{ourLink, grpcSingle, grpcBatched, rawBytes, memoryAlone} }

const (
	linkSize       = 200 // bytes of a publication's data
	linkPartitions = 4   // of the hub; each has a channel
	linkWindow     = 8192
	linkAckEvery   = 2048
	linkGoal       = 150.0 // nanoseconds of CPU a publication, of both processes, when 512 come at a time
)

// linkShape says how publications come.
type linkShape struct {
	size   int // so many at a time, to one partition
	window int // at most so many are under way
	every  int // the gateway acknowledges so many at a time
}

// linkHeap is how many MB of memory a hub and a gateway hold besides. A process that holds next to nothing collects garbage after each few MB; one that
// serves some thousand clients does not.
const linkHeap = 64

// linkShapes are the shapes in the order of the table.
func linkShapes() []linkShape {
	shapes := []linkShape{{size: 1, window: 1, every: 1}}
	for _, size := range []int{1, 64, 512} {
		shapes = append(shapes, linkShape{size: size, window: linkWindow, every: linkAckEvery})
	}
	return shapes
}

// isAlone reports whether each publication waits until the one before has arrived.
func (s linkShape) isAlone() bool { return s.window == 1 }

func (s linkShape) String() string {
	if s.isAlone() {
		return "1, alone"
	}
	return strconv.Itoa(s.size)
}

// peers returns the peers that are measured in a shape. The memory broker takes one publication at a time.
func (s linkShape) peers(wanted []string) []string {
	return slices.DeleteFunc(slices.Clone(wanted), func(name string) bool { return name == memoryAlone && (s.size > 1 || s.isAlone()) })
}

// linkSample is one measurement of the cell called link.
type linkSample struct {
	Shape   string  `json:"shape"`
	Peer    string  `json:"peer"`
	Round   int     `json:"round"`
	Rate    float64 `json:"rate"`    // publications a second
	Hub     float64 `json:"hub"`     // nanoseconds of CPU a publication
	Gateway float64 `json:"gateway"` // likewise
}

// crossings measures the peers in each shape in turn, round after round.
func crossings(ctx context.Context, b *load.Bench, c *cell, peers []string) ([]linkSample, error) {
	var all []linkSample
	for _, shape := range linkShapes() {
		chosen := shape.peers(peers)
		for round := range b.Rounds {
			for i := range chosen {
				peer := chosen[(round+i)%len(chosen)]
				b.Say(&c.Work, fmt.Sprintf("%v at a time, round %d of %d, %s", shape, round+1, b.Rounds, peer))
				s, err := cross(ctx, b, shape, peer)
				if err != nil {
					return nil, fmt.Errorf("cell %s, %v at a time, %s: %w", c.Name, shape, peer, err)
				}
				s.Round = round + 1
				all = append(all, s)
			}
		}
	}
	b.Say(&c.Work, "")
	return all, nil
}

// linkPair is a hub, and a gateway that is connected to it.
type linkPair struct {
	hub     *child.Process
	gateway *child.Process // nil if the peer has none
}

func startLink(ctx context.Context, b *load.Bench, shape linkShape, peer string) (*linkPair, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	start := func(role string, first any, more ...string) (*child.Process, error) {
		args := append([]string{
			"serve", role, "-peer", peer, "-size", strconv.Itoa(shape.size), "-window", strconv.Itoa(shape.window), "-every", strconv.Itoa(shape.every),
			"-heap", strconv.Itoa(linkHeap),
		}, more...)
		if b.Profiles != "" {
			args = append(args, "-profile", filepath.Join(b.Profiles, fmt.Sprintf("link-%s-%d-%d-%s.prof", peer, shape.size, shape.window, role)))
		}
		return child.Start(ctx, first, self, args...)
	}
	var at linkAddress
	p := new(linkPair)
	if p.hub, err = start("hub", &at); err != nil || peer == memoryAlone {
		return p, err
	}
	if p.gateway, err = start("gateway", &struct{}{}, "-addr", at.Addr, "-acks", at.Acks); err != nil {
		return nil, errors.Join(err, p.hub.Stop())
	}
	return p, nil
}

func (p *linkPair) stop() error {
	if p.gateway == nil {
		return p.hub.Stop()
	}
	return errors.Join(p.gateway.Stop(), p.hub.Stop())
}

// cpu returns how much CPU both processes have used, in nanoseconds.
func (p *linkPair) cpu() (hub, gateway int64, err error) {
	if hub, err = child.CPU(p.hub.PID()); err == nil && p.gateway != nil {
		gateway, err = child.CPU(p.gateway.PID())
	}
	return hub, gateway, err
}

// run has the hub deliver for d. It fails if the gateway has not got everything.
func (p *linkPair) run(d time.Duration) (*linkCounts, error) {
	var sent, got linkCounts
	if err := p.hub.Ask(&sent, "run %d", max(d.Milliseconds(), 1)); err != nil || p.gateway == nil {
		return &sent, err
	}
	if err := p.gateway.Ask(&got, "state"); err != nil {
		return nil, err
	}
	if got.All != sent.All || !slices.Equal(got.Last, sent.Last) {
		return nil, fmt.Errorf("the gateway has %d publications up to %d, the hub sent %d up to %d", got.All, got.Last, sent.All, sent.Last)
	}
	return &sent, nil
}

// cross measures one peer once.
func cross(ctx context.Context, b *load.Bench, shape linkShape, peer string) (s linkSample, err error) {
	p, err := startLink(ctx, b, shape, peer)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	if _, err := p.run(b.Window / 4); err != nil { // until buffers and pools are warm
		return s, err
	}
	hub, gateway, err := p.cpu()
	if err != nil {
		return s, err
	}
	counts, err := p.run(b.Window)
	if err != nil {
		return s, err
	}
	hubAfter, gatewayAfter, err := p.cpu()
	if err != nil {
		return s, err
	}
	n := float64(counts.Run)
	return linkSample{
		Shape: shape.String(), Peer: peer, Rate: n / (float64(counts.NS) / 1e9),
		Hub: float64(hubAfter-hub) / n, Gateway: float64(gatewayAfter-gateway) / n,
	}, nil
}

// linksOf returns the samples of one peer in one shape.
func linksOf(all []linkSample, shape linkShape, peer string) []linkSample {
	return slices.DeleteFunc(slices.Clone(all), func(s linkSample) bool { return s.Shape != shape.String() || s.Peer != peer })
}

// both is the CPU of both processes.
func (s *linkSample) both() float64 { return s.Hub + s.Gateway }

// linkTable is the table of the cell called link.
func linkTable(c *cell, all []linkSample) *report.Table {
	t := &report.Table{
		Title: c.Name + ": " + c.title,
		Head:  []string{"at a time", "peer", "CPU ns a publication", "hub", "gateway", "1000 publications/s"},
		Note: fmt.Sprintf("At most %d are under way; alone: each waits until the one before has arrived. Each process holds %d MB besides. raw writes and reads as many bytes, 256 publications at a "+
			"time, or one. memory-alone publishes to the memory broker, without a gateway. All arrived, in order.", linkWindow, linkHeap),
	}
	for _, shape := range linkShapes() {
		for _, peer := range linkPeers() {
			mine := linksOf(all, shape, peer)
			if len(mine) == 0 {
				continue
			}
			t.Add(shape.String(), peer, measure.Over(mine, (*linkSample).both).String(),
				measure.Over(mine, func(s *linkSample) float64 { return s.Hub }).String(),
				measure.Over(mine, func(s *linkSample) float64 { return s.Gateway }).String(),
				measure.Over(mine, func(s *linkSample) float64 { return s.Rate / 1e3 }).String())
		}
	}
	return t
}

// judgeLinks judges what publications cost that come many at a time.
func judgeLinks(all []linkSample) []report.Target {
	shapes := linkShapes()
	mine := linksOf(all, shapes[len(shapes)-1], ourLink)
	if len(mine) == 0 {
		return nil
	}
	cpu := measure.Over(mine, (*linkSample).both)
	return []report.Target{{
		Server: ourLink, Target: fmt.Sprintf("link: at most %.0f ns a publication, 512 at a time", linkGoal),
		Measured: cpu.String() + " ns", Met: report.Verdict(cpu, linkGoal),
	}}
}
