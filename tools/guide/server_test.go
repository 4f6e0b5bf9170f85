package guide_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/sluice-push/sluice/codec"
	"github.com/sluice-push/sluice/session"
	"github.com/sluice-push/sluice/transport"
	"github.com/sluice-push/sluice/workerpool"
)

// serve runs srv in memory until stop is called, and connects to it.
func serve(srv *session.Server) (conn *transport.MemoryConn, stop func()) {
	ln := transport.NewMemory(0)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = srv.Serve(ln)
	}()
	conn, err := ln.Dial(context.Background())
	if err != nil {
		panic(err)
	}
	return conn, func() {
		_ = conn.Close()
		_ = srv.Close()
		<-served
	}
}

// printLines prints the next n lines of a connection.
func printLines(conn net.Conn, n int) {
	lines := bufio.NewScanner(conn)
	for range n {
		if !lines.Scan() {
			fmt.Println("no line:", lines.Err())
			return
		}
		fmt.Println(lines.Text())
	}
}

func echo(s *session.Session, msg []byte) { _ = s.Send(msg) }

func Example_state() {
	type player struct{ moves int }
	closed := make(chan struct{})

	handler := session.Typed[*player]{
		Open: func(*session.Session) (*player, error) { return &player{}, nil },
		Message: func(s *session.Session, p *player, msg []byte) {
			p.moves++
			_ = s.Send(fmt.Appendf(nil, "move %d: %s", p.moves, msg))
		},
		Close: func(_ *session.Session, p *player, info *session.CloseInfo) {
			fmt.Println(p.moves, "moves, ended by", info.By)
			close(closed)
		},
	}
	srv := session.NewServer(codec.Line{}, handler.Handler(), nil)

	conn, stop := serve(srv)
	defer stop()
	fmt.Fprint(conn, "e4\ne5\n")
	printLines(conn, 2)
	_ = conn.Close()
	<-closed
	// Output:
	// move 1: e4
	// move 2: e5
	// 2 moves, ended by peer
}

func Example_broadcast() {
	opened := make(chan struct{})
	srv := session.NewServer(codec.Line{}, &session.Handler{
		Open: func(*session.Session) error { close(opened); return nil },
	}, nil)
	conn, stop := serve(srv)
	defer stop()
	<-opened

	frame, err := codec.Line{}.AppendEncode(nil, []byte("the same for every session"))
	if err != nil {
		panic(err)
	}
	for s := range srv.Sessions() {
		_ = s.WriteShared(frame) // encoded once, kept without a copy: it must not change any more
	}

	printLines(conn, 1)
	// Output: the same for every session
}

func download(s *session.Session, f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	head := binary.BigEndian.AppendUint64(nil, uint64(info.Size())) // codec.Length{Bytes: 8}
	return s.WriteFile(head, f, 0, info.Size())
}

func Example_file() {
	f, err := os.Open("doc.go")
	if err != nil {
		panic(err)
	}
	defer f.Close()
	srv := session.NewServer(codec.Length{Bytes: 8}, &session.Handler{
		Message: func(s *session.Session, _ []byte) { s.End(nil, download(s, f)) },
	}, nil)
	conn, stop := serve(srv)
	defer stop()

	fmt.Fprint(conn, "\x00\x00\x00\x00\x00\x00\x00\x04file")
	all, err := io.ReadAll(conn)
	if err != nil {
		panic(err)
	}
	msg, n, err := codec.Length{Bytes: 8}.Decode(all)
	fmt.Printf("%.22s %v %v\n", msg, n == len(all), err)
	// Output: // Package guide holds true <nil>
}

func Example_refuse() {
	result := make(chan error, 1)
	srv := session.NewServer(codec.Line{}, &session.Handler{
		Message: func(s *session.Session, msg []byte) {
			for {
				if err := s.Send(msg); err != nil { // the peer does not read
					result <- err
					return
				}
			}
		},
	}, &session.Options{QueueBytes: 64 << 10, Policy: session.Refuse})
	conn, stop := serve(srv)
	defer stop()

	fmt.Fprintln(conn, "flood me")
	fmt.Println(errors.Is(<-result, session.ErrQueueFull), srv.Stats().Drops, srv.Len())
	// Output: true 1 1
}

var errLogin = errors.New("wrong password")

func Example_login() {
	trade := &session.Handler{Message: echo}

	login := &session.Handler{
		Message: func(s *session.Session, msg []byte) {
			if string(msg) != "secret" {
				s.End([]byte("no\n"), errLogin) // says so, and ends in order
				return
			}
			s.SetLimits(session.Limits{MaxMessage: 64 << 10, IdleTimeout: -1})
			s.SetHandler(trade)
		},
	}
	strict := &session.Options{MaxMessage: 64, IdleTimeout: 5 * time.Second, MaxSessionsPerAddress: 100}
	srv := session.NewServer(codec.Line{}, login, strict)

	conn, stop := serve(srv)
	defer stop()
	fmt.Fprintf(conn, "secret\n%070d\n", 7)
	printLines(conn, 1)
	// Output: 0000000000000000000000000000000000000000000000000000000000000000000007
}

func Example_executor() {
	query := func(msg []byte) []byte { return msg }

	pool := workerpool.NewElastic(&workerpool.Options{Workers: 64}) // at most 64 queries at a time
	srv := session.NewServer(codec.Line{}, &session.Handler{
		Message: func(s *session.Session, msg []byte) { _ = s.Send(query(msg)) },
	}, &session.Options{Executor: pool})
	defer func() {
		_ = srv.Close() // first the sessions, then what runs them
		_ = pool.Close()
	}()

	conn, stop := serve(srv)
	defer stop()
	fmt.Fprintln(conn, "select 1")
	printLines(conn, 1)
	// Output: select 1
}

func run(ctx context.Context, srv *session.Server, ln net.Listener) error {
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	select {
	case err := <-served:
		return err // accepting failed for good
	case <-ctx.Done(): // signal.NotifyContext, for example
	}
	grace, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err := srv.Shutdown(grace)
	<-served
	return err
}

func Example_shutdown() {
	opened := make(chan struct{})
	srv := session.NewServer(codec.Line{}, &session.Handler{
		Open:    func(*session.Session) error { close(opened); return nil },
		Message: echo,
		Drain:   func(s *session.Session) { s.End([]byte("come back later\n"), nil) },
	}, nil)

	ln := transport.NewMemory(0)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- run(ctx, srv, ln) }()
	conn, err := ln.Dial(ctx)
	if err != nil {
		panic(err)
	}
	<-opened
	cancel()
	printLines(conn, 1)
	_ = conn.Close()
	fmt.Println(<-ended)
	// Output:
	// come back later
	// <nil>
}
