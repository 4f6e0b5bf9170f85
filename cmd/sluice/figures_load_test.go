package main_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/protocol"
	"github.com/sluice-push/sluice/push/protocol/json"
)

// caller calls publish of the HTTP API over several connections, on each one call after the other. It implements only the necessary parts of
// HTTP, because net/http would use as much CPU time as the node under test.
type caller struct {
	b     *testing.B
	conns []*callerConn
}

type callerConn struct {
	conn    net.Conn
	in      *bufio.Reader
	host    string
	request []byte
	answer  []byte
}

func newCaller(b *testing.B, address string, connections int) *caller {
	b.Helper()
	c := &caller{b: b}
	for range connections {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			b.Fatal(err)
		}
		c.conns = append(c.conns, &callerConn{conn: conn, in: bufio.NewReader(conn), host: address})
	}
	b.Cleanup(c.close)
	return c
}

func (c *caller) close() {
	for _, conn := range c.conns {
		_ = conn.conn.Close()
	}
}

// publish calls publish and returns the position.
func (c *callerConn) publish(body string) (push.Position, error) {
	c.request = fmt.Appendf(c.request[:0], "POST /api/publish HTTP/1.1\r\nHost: %s\r\nX-API-Key: %s\r\nContent-Length: %d\r\n\r\n%s",
		c.host, figureKey, len(body), body)
	if _, err := c.conn.Write(c.request); err != nil {
		return push.Position{}, err
	}
	length := 0
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return push.Position{}, err
		}
		if value, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			length, _ = strconv.Atoi(string(bytes.TrimSpace(value)))
		}
		if len(line) == 2 {
			break
		}
	}
	c.answer = slices.Grow(c.answer[:0], length)[:length]
	for n := 0; n < length; {
		m, err := c.in.Read(c.answer[n:])
		if err != nil {
			return push.Position{}, err
		}
		n += m
	}
	return positionIn(c.answer)
}

// positionIn reads the answer to a publish.
func positionIn(answer []byte) (push.Position, error) {
	_, rest, found := bytes.Cut(answer, []byte(`"offset":`))
	digits := bytes.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	_, epoch, hasEpoch := bytes.Cut(rest, []byte(`"epoch":"`))
	end := bytes.IndexByte(epoch, '"')
	if !found || !hasEpoch || digits < 1 || end < 1 {
		return push.Position{}, fmt.Errorf("publish answers %s", answer)
	}
	offset, err := strconv.ParseUint(string(rest[:digits]), 10, 64)
	return push.Position{Epoch: string(epoch[:end]), Offset: offset}, err
}

// each publishes n bodies and returns their positions.
func (c *caller) each(n int, body func(i int) string) []push.Position {
	c.b.Helper()
	positions := make([]push.Position, n)
	var next atomic.Int64
	c.run(func(conn *callerConn) error {
		for {
			i := int(next.Add(1)) - 1
			if i >= n {
				return nil
			}
			var err error
			if positions[i], err = conn.publish(body(i)); err != nil {
				return err
			}
		}
	})
	return positions
}

// during publishes for a given time. It returns how many publications were acknowledged, and how long that took.
func (c *caller) during(d time.Duration, body func(i int) string) (int, time.Duration) {
	c.b.Helper()
	var n atomic.Int64
	began := time.Now()
	c.run(func(conn *callerConn) error {
		for time.Since(began) < d {
			if _, err := conn.publish(body(int(n.Add(1)))); err != nil {
				return err
			}
		}
		return nil
	})
	return int(n.Load()), time.Since(began)
}

// run runs work on all connections and waits for it.
func (c *caller) run(work func(*callerConn) error) {
	c.b.Helper()
	var working sync.WaitGroup
	errs := make([]error, len(c.conns))
	for i, conn := range c.conns {
		working.Go(func() { errs[i] = work(conn) })
	}
	working.Wait()
	for _, err := range errs {
		if err != nil {
			c.b.Fatal(err)
		}
	}
}

// BenchmarkFiguresPublish measures the highest rate of acknowledged publications over the HTTP API with 64 connections, and their cost for the
// node. Rounds alternate between the brokers.
func BenchmarkFiguresPublish(b *testing.B) {
	rounds, span := sized(1, 3), sized(200*time.Millisecond, 5*time.Second)
	for _, channels := range []int{1, 2000} {
		b.Run(fmt.Sprintf("channels=%d", channels), func(b *testing.B) {
			body := func(i int) string {
				return fmt.Sprintf(`{"channel":"ticks:%d","data":{"symbol":"BTCUSDT","price":"60123.45","pad":"%0100d"}}`, i%channels, i)
			}
			for b.Loop() {
				count, wall, cpu := map[string]int{}, map[string]time.Duration{}, map[string]time.Duration{}
				nodes, callers := map[string]*process{}, map[string]*caller{}
				for _, kind := range figureKinds() {
					nodes[kind], _ = figureNode(b, figureConfig(kind, false), b.TempDir())
					callers[kind] = newCaller(b, nodes[kind].public, 64)
				}
				for range rounds {
					for _, kind := range figureKinds() {
						before := nodes[kind].cpu()
						n, took := callers[kind].during(span, body)
						count[kind] += n
						wall[kind] += took
						cpu[kind] += nodes[kind].cpu() - before
					}
				}
				for _, kind := range figureKinds() {
					callers[kind].close()
					b.ReportMetric(float64(count[kind])/wall[kind].Seconds(), kind+"-publications/s")
					b.ReportMetric(cpu[kind].Seconds()*1e6/float64(count[kind]), kind+"-CPU-s/million")
					b.ReportMetric(mebibytes(nodes[kind].resident()), kind+"-MiB-resident")
					nodes[kind].finish()
				}
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkFiguresLatency measures the time from the call of the HTTP API to the arrival of the publication at a WebSocket client, at 100
// publications a second. Rounds alternate between the brokers.
func BenchmarkFiguresLatency(b *testing.B) {
	rounds, each := sized(1, 3), sized(100, 1000)
	for b.Loop() {
		nodes, took := map[string]*process{}, map[string][]time.Duration{}
		for _, kind := range figureKinds() {
			nodes[kind], _ = figureNode(b, figureConfig(kind, false), b.TempDir())
		}
		for range rounds {
			for _, kind := range figureKinds() {
				took[kind] = append(took[kind], latencies(b, nodes[kind], each)...)
			}
		}
		for _, kind := range figureKinds() {
			all := took[kind]
			slices.Sort(all)
			for name, d := range map[string]time.Duration{"p50": all[len(all)/2], "p99": all[len(all)*99/100], "max": all[len(all)-1]} {
				b.ReportMetric(milliseconds(d), kind+"-"+name+"-ms")
			}
			nodes[kind].finish()
		}
	}
	b.ReportMetric(0, "ns/op")
}

// latencies publishes n times, 100 times a second, and returns the latency of each publication at a subscriber.
func latencies(b *testing.B, p *process, n int) []time.Duration {
	b.Helper()
	conn := figureClient(b, p)
	defer func() { _ = conn.Close() }()
	if err := subscribeAll(conn, []string{"ticks:latency"}, nil); err != nil {
		b.Fatal(err)
	}
	out := make([]time.Duration, 0, n)
	done := make(chan error, 1)
	base := time.Now()
	go func() {
		for len(out) < n {
			var r protocol.Reply
			err := readReplies(conn, func(line []byte) error {
				if err := json.DecodeReply(line, &r); err != nil || r.Kind != protocol.KindPush {
					return err
				}
				sent, err := strconv.ParseInt(string(r.Push.Publication.Data), 10, 64)
				out = append(out, time.Since(base)-time.Duration(sent))
				return err
			})
			if err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	caller := newCaller(b, p.public, 1)
	defer caller.close()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for range n {
		<-tick.C
		if _, err := caller.conns[0].publish(fmt.Sprintf(`{"channel":"ticks:latency","data":%d}`, time.Since(base))); err != nil {
			b.Fatal(err)
		}
	}
	if err := testwait.Receive(b, done); err != nil {
		b.Fatal(err)
	}
	return out
}

// figureClient connects a client, with a timeout.
func figureClient(b *testing.B, p *process) *websocket.Conn {
	b.Helper()
	conn, resp, err := websocket.DefaultDialer.Dial("ws://"+p.public+"/connection/websocket", nil)
	if err != nil {
		b.Fatal(err)
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		b.Fatal(resp.Status)
	}
	if err := conn.SetReadDeadline(time.Now().Add(feedTime)); err != nil {
		b.Fatal(err)
	}
	return conn
}

// subscribeAll subscribes a client to its channels, from positions if there are any, and returns when all subscriptions are answered.
func subscribeAll(conn *websocket.Conn, channels []string, at []push.Position) error {
	frame := json.AppendCommand(nil, &protocol.Command{ID: 1, Kind: protocol.KindConnect})
	for i, name := range channels {
		cmd := protocol.Command{ID: uint32(i + 2), Kind: protocol.KindSubscribe, Subscribe: protocol.SubscribeRequest{Channel: name}}
		if at != nil {
			cmd.Subscribe.Recover, cmd.Subscribe.Position = true, at[i]
		}
		frame = json.AppendCommand(append(frame, '\n'), &cmd)
	}
	if err := conn.WriteMessage(websocket.TextMessage, frame); err != nil {
		return err
	}
	answered := 0
	for answered < len(channels) {
		var r protocol.Reply
		err := readReplies(conn, func(line []byte) error {
			switch err := json.DecodeReply(line, &r); {
			case err != nil:
				return err
			case r.Error != nil:
				return r.Error
			case r.Kind != protocol.KindSubscribe:
				return nil
			case at != nil && (!r.Subscribe.Recovered || len(r.Subscribe.Publications) != 1):
				return fmt.Errorf("%s is not recovered: %s", channels[r.ID-2], line)
			}
			answered++
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// readReplies calls take with the lines of one frame.
func readReplies(conn *websocket.Conn, take func(line []byte) error) error {
	_, frame, err := conn.ReadMessage()
	if err != nil {
		return err
	}
	for line, rest := json.NextLine(frame); line != nil; line, rest = json.NextLine(rest) {
		if err := take(line); err != nil {
			return err
		}
	}
	return nil
}

// BenchmarkFiguresChannels restarts a node that has many channels with one publication each. Clients then resume in all of them at once, from
// before that publication, so that the node must load every channel. At the end the node is told to end while all clients are connected.
func BenchmarkFiguresChannels(b *testing.B) {
	for _, presence := range []bool{false, true} {
		b.Run(fmt.Sprintf("presence=%t", presence), func(b *testing.B) { manyChannels(b, presence) })
	}
}

func manyChannels(b *testing.B, presence bool) {
	names := make([]string, sized(1_000, 100_000))
	for i := range names {
		names[i] = "ticks:" + strconv.Itoa(i)
	}
	for b.Loop() {
		folder := b.TempDir()
		p, _ := figureNode(b, figureConfig("nats", presence), folder)
		caller := newCaller(b, p.public, sized(8, 64))
		positions := caller.each(len(names), func(i int) string {
			return `{"channel":"` + names[i] + `","data":{"pad":"` + strings.Repeat("x", 100) + `"}}`
		})
		for i := range positions {
			positions[i].Offset--
		}
		caller.close()
		p.finish()
		p, took := figureNode(b, figureConfig("nats", presence), folder)
		b.ReportMetric(milliseconds(took), "ms-to-ready")
		b.ReportMetric(mebibytes(p.resident()), "MiB-when-ready")
		cpu, began := p.cpu(), time.Now()
		conns := comeBack(b, p, names, positions)
		b.ReportMetric(time.Since(began).Seconds(), "s-to-all-answers")
		b.ReportMetric((p.cpu() - cpu).Seconds(), "CPU-s-for-that")
		b.ReportMetric(mebibytes(p.resident()), "MiB-with-clients")
		var reading sync.WaitGroup
		for _, conn := range conns { // read until the node disconnects the client; otherwise the node would wait for the client's answer
			reading.Go(func() {
				for _, _, err := conn.ReadMessage(); err == nil; {
					_, _, err = conn.ReadMessage()
				}
			})
		}
		ended := time.Now()
		if code := p.terminate(); code != 0 {
			b.Logf("the node ended with exit code %d", code)
		}
		b.ReportMetric(milliseconds(time.Since(ended)), "ms-to-end")
		for _, conn := range conns {
			_ = conn.Close()
		}
		testwait.Return(b, reading.Wait)
	}
	b.ReportMetric(0, "ns/op")
}

// comeBack resumes all channels with several clients, the same number with each. It returns the clients when all subscriptions are answered.
func comeBack(b *testing.B, p *process, names []string, positions []push.Position) []*websocket.Conn {
	b.Helper()
	const each = 100 // subscriptions of a client
	var coming sync.WaitGroup
	conns := make([]*websocket.Conn, len(names)/each)
	errs := make([]error, len(conns))
	for i := range conns {
		conns[i] = figureClient(b, p)
		coming.Go(func() { errs[i] = subscribeAll(conns[i], names[i*each:(i+1)*each], positions[i*each:(i+1)*each]) })
	}
	testwait.Return(b, coming.Wait)
	if err := errors.Join(errs...); err != nil {
		b.Fatal(err)
	}
	return conns
}
