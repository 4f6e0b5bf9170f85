package main

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-push/sluice/push/config"
	"github.com/sluice-push/sluice/transport"
)

// slowRequest is a request of a client that is slow, in fake time.
type slowRequest struct {
	name    string
	request string
	handler func(w http.ResponseWriter, r *http.Request) error // nil: the node is not ready
	trickle bool                                               // the client sends a byte of the body every second
	reads   time.Duration                                      // how long the client waits before it reads each mebibyte; 0: it reads nothing
	want    error                                              // of the handler
	most    time.Duration                                      // until the handler has returned and the client, if it reads, has read to the end
}

// TestSlowRequests: a body that does not arrive, and a response that is not read, end a request and its connection in bounded time, also before the
// node is ready. A client that is slow within the bounds gets all.
func TestSlowRequests(t *testing.T) {
	readBody := func(_ http.ResponseWriter, r *http.Request) error {
		_, err := io.ReadAll(r.Body)
		return err
	}
	ignoreBody := func(http.ResponseWriter, *http.Request) error { return nil }
	write := func(w http.ResponseWriter, _ *http.Request) error {
		var err error
		for range 30 << 20 >> 10 {
			if err == nil {
				_, err = w.Write(make([]byte, 1<<10))
			}
		}
		return err
	}
	const get, post = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n"
	const slack = 3 * time.Second
	for _, r := range []slowRequest{
		{"no body", post, readBody, false, 1, os.ErrDeadlineExceeded, bodyTimeout + slack},
		{"a body byte by byte", post, readBody, true, 1, os.ErrDeadlineExceeded, bodyTimeout + slack},
		{"a body that nobody reads", post, ignoreBody, false, 1, nil, slack},
		{"a body before the node is ready", post, nil, false, 1, nil, slack},
		{"a response that is not read", get, write, false, 0, os.ErrDeadlineExceeded, responseTimeout + testWriteTimeout},
		{"a response that is read slowly", get, write, false, time.Second, nil, responseTimeout + testWriteTimeout},
	} {
		t.Run(r.name, func(t *testing.T) { synctest.Test(t, r.run) })
	}
}

const testWriteTimeout = 5 * time.Second

func (r *slowRequest) run(t *testing.T) {
	source := transport.NewMemory(4 << 10)
	n := &node{public: source, failed: make(chan error, 1)}
	n.servePublic(&config.Config{Limits: config.Limits{WriteTimeout: config.Duration(testWriteTimeout)}}, slog.New(slog.DiscardHandler))
	result := make(chan error, 1)
	if r.handler == nil {
		result <- nil
	} else {
		var h http.Handler = http.HandlerFunc(func(w http.ResponseWriter, in *http.Request) { result <- r.handler(w, in) })
		n.handler.Store(&h)
	}
	began := time.Now()
	client, err := source.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var sending sync.WaitGroup
	sending.Go(func() {
		_, err := io.WriteString(client, r.request)
		for ; err == nil && r.trickle; _, err = client.Write([]byte{'x'}) {
			<-time.After(time.Second)
		}
	})
	if r.reads > 0 {
		var head [12]byte
		_, err := io.ReadFull(client, head[:])
		for err == nil {
			<-time.After(r.reads)
			_, err = io.CopyN(io.Discard, client, 1<<20)
		}
		if !errors.Is(err, io.EOF) || r.want == nil && !strings.HasPrefix(string(head[:]), "HTTP/1.1 ") {
			t.Errorf("the client has read %q, %v", head, err)
		}
	}
	if err := <-result; !errors.Is(err, r.want) {
		t.Errorf("the handler got %v, want %v", err, r.want)
	}
	if took := time.Since(began); took > r.most {
		t.Errorf("it took %v", took)
	}
	_ = client.Close()
	sending.Wait()
	_ = n.publicServer.Close()
	n.serving.Wait()
}
