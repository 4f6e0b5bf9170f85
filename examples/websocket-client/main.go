// Command websocket-client talks to a WebSocket server from a terminal. Each line of standard input is sent as a text message, each
// message that comes is printed as a line, one that is not text as its size:
//
//	websocket-client [-header NAME:VALUE] [-subprotocol NAME] [-compress] URL
//
// At the end of the input (^D) it says goodbye with code 1000: when the server has answered a ping, at the latest after five seconds, so
// that what it has to say to the last line is still printed. SIGTERM and ^C do so at once. Last it prints with which code the connection
// has ended, on standard error. The status is 0 after 1000, 1001 and a goodbye without a code, otherwise 1, and 2 if it was called
// wrongly.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sluice-push/sluice/examples/internal/run"
	"github.com/sluice-push/sluice/websocket"
)

const (
	most     = 16 << 20        // bytes of a message, either way
	patience = 5 * time.Second // how long the answer to the last ping is awaited
)

func main() {
	o := &websocket.Options{MaxMessage: most, Header: http.Header{}, Proxy: websocket.ProxyFromEnvironment}
	flag.Func("header", "`NAME:VALUE` to add to the request; may be repeated", func(line string) error {
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			return errors.New("NAME:VALUE is expected")
		}
		o.Header.Add(strings.TrimSpace(name), strings.TrimSpace(value))
		return nil
	})
	flag.Func("subprotocol", "subprotocol to offer, by its `NAME`; may be repeated, the best first", func(name string) error {
		o.Subprotocols = append(o.Subprotocols, name)
		return nil
	})
	compress := flag.Bool("compress", false, "offer compression")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(flag.CommandLine.Output(), "one URL is expected, ws://… or wss://…")
		flag.Usage()
		os.Exit(2)
	}
	if *compress {
		o.Compression = &websocket.Compression{Takeover: true, PeerTakeover: true}
	}
	ctx := run.Signals()
	h := &websocket.Handler{Pull: true, Pong: func(c *websocket.Conn, _ []byte) { bye(c) }}
	c, err := websocket.NewClient(h, o).Dial(ctx, flag.Arg(0))
	if err != nil {
		run.Fail(err)
	}
	if name := c.Subprotocol(); name != "" {
		fmt.Fprintln(os.Stderr, "subprotocol", name)
	}
	os.Exit(talk(ctx, c, os.Stdin, os.Stdout))
}

// talk sends what comes in and prints what comes back, until the connection has ended, and returns the status of the program.
func talk(ctx context.Context, c *websocket.Conn, in io.Reader, out io.Writer) int {
	context.AfterFunc(ctx, func() { bye(c) })
	go send(c, in) // ends with the input, which nothing can interrupt, or the program
	for {
		m, err := c.Receive(context.Background())
		if err != nil {
			return report(err)
		}
		if m.Op == websocket.OpText {
			fmt.Fprintf(out, "%s\n", m.Data)
		} else {
			fmt.Fprintf(out, "(%d bytes, not text)\n", len(m.Data))
		}
	}
}

// send sends lines, and has the connection ended behind the last one.
func send(c *websocket.Conn, in io.Reader) {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, most)
	for lines.Scan() {
		if !utf8.Valid(lines.Bytes()) {
			fmt.Fprintln(os.Stderr, "not sent: the line is not UTF-8")
			continue
		}
		if c.Send(websocket.OpText, lines.Bytes()) != nil {
			return // who receives is told why
		}
	}
	if err := lines.Err(); err != nil {
		fmt.Fprintln(os.Stderr, "input:", err)
	}
	if c.Ping(nil) == nil { // the answer comes behind those to the lines
		time.AfterFunc(patience, func() { bye(c) })
	}
}

// bye ends the connection. That it has ended already is no mistake.
func bye(c *websocket.Conn) { _ = c.Close(websocket.CloseNormal, "") }

// report says how the connection has ended, and returns the status of the program.
func report(err error) int {
	end := &websocket.CloseError{Code: websocket.CodeOf(err)}
	_ = errors.As(err, &end)
	switch end.Code {
	case websocket.CloseAbnormal:
		fmt.Fprintln(os.Stderr, "closed: 1006 there was no goodbye:", err)
		return 1
	case websocket.CloseNoStatus:
		fmt.Fprintln(os.Stderr, "closed: without a code")
		return 0
	}
	fmt.Fprintln(os.Stderr, strings.TrimSpace(fmt.Sprintf("closed: %d %s", end.Code, end.Reason)))
	if end.Code == websocket.CloseNormal || end.Code == websocket.CloseGoingAway {
		return 0
	}
	return 1
}
