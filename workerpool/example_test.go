package workerpool_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/sluice-push/sluice/codec"
	"github.com/sluice-push/sluice/session"
	"github.com/sluice-push/sluice/transport"
	"github.com/sluice-push/sluice/workerpool"
)

// At most two handlers of a server run at a time, however many sessions it has. Sessions that wait are not read, which slows down their peers.
func Example_sessions() {
	e := workerpool.NewElastic(&workerpool.Options{Workers: 2})
	srv := session.NewServer(codec.Line{}, &session.Handler{
		Message: func(s *session.Session, msg []byte) {
			_ = s.Send(fmt.Appendf(nil, "answer to %s", msg))
			s.End(nil, nil)
		},
	}, &session.Options{Executor: e})
	client, server := transport.Pipe(0)
	if _, err := srv.ServeConn(server, nil); err != nil {
		panic(err)
	}

	fmt.Fprintln(client, "a query")
	answer, err := io.ReadAll(client)
	fmt.Printf("%s%v\n", answer, err)
	_ = client.Close()
	_ = srv.Close() // before its executor
	_ = e.Close()
	fmt.Println(e.Stats().Run > 0)
	// Output:
	// answer to a query
	// <nil>
	// true
}

// Messages of one session are handled in order, whatever happens to other sessions, on workers that start and end with the load.
func ExampleStrand() {
	e := workerpool.NewStrand(nil)
	log := make([][]string, 3)
	for i := range 9 {
		session := i % 3
		err := e.Submit(uint64(session), func() { log[session] = append(log[session], fmt.Sprint("message ", i)) })
		if err != nil {
			fmt.Println(err)
		}
	}
	if err := e.Shutdown(context.Background()); err != nil {
		fmt.Println(err)
	}
	for session, messages := range log {
		fmt.Println(session, messages)
	}
	// Output:
	// 0 [message 0 message 3 message 6]
	// 1 [message 1 message 4 message 7]
	// 2 [message 2 message 5 message 8]
}

// Rows are written by the name of their table: one table has one writer at a time, and its rows keep their order.
func ExampleKeyedFixed() {
	e := workerpool.NewKeyedFixed(&workerpool.Options{Workers: 4})
	var orders, users []int
	for i := range 3 {
		_ = e.Submit(workerpool.Key("orders"), func() { orders = append(orders, i) })
		_ = e.Submit(workerpool.Key("users"), func() { users = append(users, i*i) })
	}
	fmt.Println(e.Shutdown(context.Background()), orders, users)
	// Output:
	// <nil> [0 1 2] [0 1 4]
}

// If the queue is full, a request is refused, and the server can tell its sender.
func ExampleShared() {
	e := workerpool.NewShared(&workerpool.Options{Workers: 1, Queue: 2, Policy: workerpool.Refuse})
	begun, hold := make(chan struct{}), make(chan struct{})
	_ = e.Submit(0, func() {
		close(begun)
		<-hold
	})
	<-begun
	for i := range 3 {
		err := e.Submit(0, func() {})
		fmt.Println(i, errors.Is(err, workerpool.ErrFull))
	}
	close(hold)
	_ = e.Shutdown(context.Background())
	fmt.Printf("%+v\n", e.Stats())
	// Output:
	// 0 false
	// 1 false
	// 2 true
	// {Submitted:3 Run:3 Panicked:0 Dropped:0 Refused:1 Queued:0 Running:0 Workers:0}
}

// Very many very short tasks, submitted in batches.
func ExampleRoundRobin() {
	e := workerpool.NewRoundRobin(nil)
	var sum atomic.Int64
	tasks := make([]func(), 100)
	for i := range tasks {
		tasks[i] = func() { sum.Add(int64(i)) }
	}
	n, err := e.SubmitBatch(0, tasks)
	fmt.Println(n, err)
	_ = e.Shutdown(context.Background())
	fmt.Println(sum.Load())
	// Output:
	// 100 <nil>
	// 4950
}

// Tasks that wait for something else get a worker each, up to a bound.
func ExampleElastic() {
	e := workerpool.NewElastic(&workerpool.Options{Workers: 100, IdleTime: time.Second})
	answers := make(chan int)
	for i := range 10 {
		_ = e.Submit(0, func() { answers <- i }) // each waits until its answer is received
	}
	sum := 0
	for range 10 {
		sum += <-answers
	}
	fmt.Println(sum)
	_ = e.Close()
	// Output:
	// 45
}
