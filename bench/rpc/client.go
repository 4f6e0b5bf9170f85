package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	netrpc "net/rpc"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	apache "github.com/apache/thrift/lib/go/thrift"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sluice-push/sluice/bench/internal/load"
	"github.com/sluice-push/sluice/bench/internal/measure"
	"github.com/sluice-push/sluice/rpc"
)

// errWrong is the error of an answer that is not what was sent.
var errWrong = errors.New("the answer is not what was sent")

// call makes one call of a method, and checks its answer. It is for one goroutine.
type call func(method string) error

// connected is what a client has: connections, and what makes callers.
type connected struct {
	caller func(number int, payload []byte) call
	close  func()
}

// client is the process of a client.
func client(args []string, stdin io.Reader, stdout io.Writer) error {
	flags := flag.NewFlagSet("client", flag.ContinueOnError)
	name := flags.String("server", "", "of which server")
	addr := flags.String("addr", "", "where it listens")
	callers := flags.Int("callers", 1, "of Echo")
	slow := flags.Int("slow", 0, "callers of Slow")
	conns := flags.Int("conns", 1, "connections")
	size := flags.Int("size", 1024, "bytes of a call")
	if err := flags.Parse(args); err != nil {
		return err
	}
	connect, ok := map[string]func(string, int) (*connected, error){
		sluice: connectSluice, inline: connectSluice, goroutine: connectSluice, pooled: connectPool, netRPC: connectNetRPC, grpcGo: connectGRPC, theader: connectThrift,
	}[*name]
	if !ok {
		return fmt.Errorf("there is no client of %q", *name)
	}
	c, err := connect(*addr, *conns)
	if err != nil {
		return err
	}
	defer c.close()
	l := newCallers(c, *callers, *slow, bytes.Repeat([]byte("sluice! "), *size/8+1)[:*size])
	out := json.NewEncoder(stdout)
	if err := out.Encode(struct{}{}); err != nil { // connected
		return err
	}
	for lines := bufio.NewScanner(stdin); lines.Scan(); {
		var ms int64
		if _, err := fmt.Sscanf(lines.Text(), "run %d", &ms); err != nil {
			return err
		}
		if err := out.Encode(l.run(time.Duration(ms) * time.Millisecond)); err != nil {
			return err
		}
	}
	return nil
}

// callers make calls. Those of Slow are not counted.
type callers struct {
	fast, slow []call
	counts     [16]shard // of the callers whose number modulo 16 it is

	errors atomic.Int64
	mu     sync.Mutex
	first  string // guarded by mu
}

// shard counts the latencies of some callers.
type shard struct {
	mu sync.Mutex
	h  *hdrhistogram.Histogram // guarded by mu
}

func newCallers(c *connected, fast, slow int, payload []byte) *callers {
	l := new(callers)
	for i := range fast + slow {
		call := c.caller(i, payload)
		if i < fast {
			l.fast = append(l.fast, call)
		} else {
			l.slow = append(l.slow, call)
		}
	}
	return l
}

// run makes calls for d, and waits for those that are under way then.
func (l *callers) run(d time.Duration) result {
	for i := range l.counts {
		l.counts[i].h = hdrhistogram.New(1, int64(time.Minute), 3)
	}
	l.errors.Store(0)
	var running sync.WaitGroup
	start := time.Now()
	for i, call := range l.fast {
		count := &l.counts[i%len(l.counts)]
		running.Go(func() {
			for began := start; began.Sub(start) < d; {
				err := call("Echo")
				now := time.Now()
				if err != nil {
					l.failed(err)
				} else {
					count.add(now.Sub(began))
				}
				began = now
			}
		})
	}
	for _, call := range l.slow {
		running.Go(func() {
			for time.Since(start) < d {
				if err := call("Slow"); err != nil {
					l.failed(err)
				}
			}
		})
	}
	running.Wait()
	r := result{Errors: l.errors.Load(), First: l.first}
	all := hdrhistogram.New(1, int64(time.Minute), 3)
	for i := range l.counts {
		all.Merge(l.counts[i].h)
	}
	r.Load = load.Load{Messages: all.TotalCount(), NS: time.Since(start).Nanoseconds(), All: measure.Histogram{Max: all.Max()}}
	for _, bar := range all.Distribution() {
		if bar.Count > 0 {
			r.All.Counts = append(r.All.Counts, [2]int64{bar.To, bar.Count})
		}
	}
	return r
}

func (s *shard) add(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.h.RecordValue(min(max(int64(d), 1), int64(time.Minute))) // within its range
}

func (l *callers) failed(err error) {
	l.errors.Add(1)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.first == "" {
		l.first = err.Error()
	}
}

// check compares an answer with what was sent.
func check(err error, got, sent []byte) error {
	if err == nil && !bytes.Equal(got, sent) {
		return errWrong
	}
	return err
}

// several opens connections, and closes those that are open if one fails.
func several[C any](n int, open func() (C, error), end func(C)) (all []C, closeAll func(), err error) {
	closeAll = func() {
		for _, c := range all {
			end(c)
		}
	}
	for range n {
		c, err := open()
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		all = append(all, c)
	}
	return all, closeAll, nil
}

// connectSluice connects clients of package rpc.
func connectSluice(addr string, n int) (*connected, error) {
	conns, closeAll, err := dialSluice(addr, n)
	if err != nil {
		return nil, err
	}
	return &connected{close: closeAll, caller: func(number int, payload []byte) call {
		conn, r, out := conns[number%len(conns)], new(rpc.Request), new([]byte)
		return func(method string) error {
			r.Method = method
			return check(conn.Do(context.Background(), r, payload, out), *out, payload)
		}
	}}, nil
}

func dialSluice(addr string, n int) ([]*rpc.Conn, func(), error) {
	return several(n, func() (*rpc.Conn, error) {
		return rpc.Dial(context.Background(), "tcp", addr, &rpc.ConnOptions{Form: rpc.Raw})
	}, func(c *rpc.Conn) { _ = c.Close() })
}

// pool returns a channel with connections that are free.
func pool[C any](conns []C) chan C {
	free := make(chan C, len(conns))
	for _, c := range conns {
		free <- c
	}
	return free
}

// connectPool is connectSluice with one call at a time on each connection.
func connectPool(addr string, n int) (*connected, error) {
	conns, closeAll, err := dialSluice(addr, n)
	if err != nil {
		return nil, err
	}
	free := pool(conns)
	return &connected{close: closeAll, caller: func(_ int, payload []byte) call {
		r, out := new(rpc.Request), new([]byte)
		return func(method string) error {
			conn := <-free
			defer func() { free <- conn }()
			r.Method = method
			return check(conn.Do(context.Background(), r, payload, out), *out, payload)
		}
	}}, nil
}

// connectNetRPC connects clients of net/rpc.
func connectNetRPC(addr string, n int) (*connected, error) {
	conns, closeAll, err := several(n, func() (*netrpc.Client, error) { return netrpc.Dial("tcp", addr) }, func(c *netrpc.Client) { _ = c.Close() })
	if err != nil {
		return nil, err
	}
	return &connected{close: closeAll, caller: func(number int, payload []byte) call {
		conn, out := conns[number%len(conns)], new([]byte)
		return func(method string) error { return check(conn.Call("Echo."+method, payload, out), *out, payload) }
	}}, nil
}

// connectGRPC connects clients of grpc-go.
func connectGRPC(addr string, n int) (*connected, error) {
	conns, closeAll, err := several(n, func() (*grpc.ClientConn, error) {
		return grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	}, func(c *grpc.ClientConn) { _ = c.Close() })
	if err != nil {
		return nil, err
	}
	return &connected{close: closeAll, caller: func(number int, payload []byte) call {
		conn, in, out := conns[number%len(conns)], &wrapperspb.BytesValue{Value: payload}, new(wrapperspb.BytesValue)
		return func(method string) error {
			return check(conn.Invoke(context.Background(), "/Echo/"+method, in, out), out.GetValue(), payload)
		}
	}}, nil
}

// thriftConn is a connection of Apache Thrift's.
type thriftConn struct {
	apache.TClient

	transport apache.TTransport
}

// connectThrift connects clients of Apache Thrift.
func connectThrift(addr string, n int) (*connected, error) {
	conf := new(apache.TConfiguration)
	conns, closeAll, err := several(n, func() (*thriftConn, error) {
		transport := apache.NewTHeaderTransportConf(apache.NewTSocketConf(addr, conf), conf)
		if err := transport.Open(); err != nil {
			return nil, err
		}
		p := apache.NewTHeaderProtocolConf(transport, conf)
		return &thriftConn{apache.NewTStandardClient(p, p), transport}, nil
	}, func(c *thriftConn) { _ = c.transport.Close() })
	if err != nil {
		return nil, err
	}
	free := pool(conns)
	return &connected{close: closeAll, caller: func(_ int, payload []byte) call {
		in, out := &data{id: 1, bytes: payload}, new(data)
		return func(method string) error {
			conn := <-free
			defer func() { free <- conn }()
			_, err := conn.Call(context.Background(), method, in, out)
			return check(err, out.bytes, payload)
		}
	}}, nil
}
