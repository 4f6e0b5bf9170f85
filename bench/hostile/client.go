package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// peer is a client in as few bytes as can be: it speaks lines, or text messages of WebSocket, of fewer than 64 KiB.
type peer struct {
	net.Conn
	in    *bufio.Reader
	proto string
}

// dial connects a client of a target.
func (t *target) dial(ctx context.Context) (*peer, error) {
	c, err := (&net.Dialer{Timeout: 30 * time.Second}).DialContext(ctx, "tcp", t.addr)
	if err != nil {
		return nil, err
	}
	if t.tls != nil {
		c = tls.Client(c, t.tls)
	}
	p, err := upgrade(c, t.proto, t.addr)
	if err == nil && t.proto == "sluice" {
		_, err = p.ask(`{"id":1,"connect":{"token":"` + t.token + `"}}`)
	}
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return p, nil
}

// upgrade makes a client of a connection.
func upgrade(c net.Conn, proto, addr string) (*peer, error) {
	p := &peer{Conn: c, in: bufio.NewReaderSize(c, 4<<10), proto: proto}
	if proto == "lines" {
		return p, nil
	}
	_, err := fmt.Fprintf(c, "GET /connection/websocket HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", addr)
	for line := ""; err == nil && line != "\r\n"; {
		line, err = p.in.ReadString('\n')
	}
	return p, err
}

// dialAttacker connects an attacker. A small window makes it one that does not take much.
func dialAttacker(ctx context.Context, proto, addr string, small bool) (*peer, error) {
	d := net.Dialer{Timeout: 30 * time.Second}
	if small {
		d.Control = func(_, _ string, c syscall.RawConn) error {
			return c.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4<<10) })
		}
	}
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	p, err := upgrade(c, proto, addr)
	if err == nil && proto == "sluice" && !small {
		_, err = p.ask(`{"id":1,"connect":{}}`)
	}
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return p, nil
}

// frame is a message on the wire; op is a WebSocket opcode. Masked with zeros it looks like its payload.
func (p *peer) frame(op byte, payload string) []byte {
	switch {
	case p.proto == "lines":
		return []byte(payload + "\n")
	case len(payload) < 126:
		return append([]byte{0x80 | op, 0x80 | byte(len(payload)), 0, 0, 0, 0}, payload...)
	}
	return append(append(binary.BigEndian.AppendUint16([]byte{0x80 | op, 0x80 | 126}, uint16(len(payload))), 0, 0, 0, 0), payload...)
}

// ask sends a message and returns the next.
func (p *peer) ask(payload string) (string, error) {
	if _, err := p.Write(p.frame(1, payload)); err != nil {
		return "", err
	}
	return p.receive()
}

func (p *peer) receive() (string, error) {
	_ = p.SetReadDeadline(time.Now().Add(time.Minute))
	if p.proto == "lines" {
		return p.in.ReadString('\n')
	}
	for {
		var head [4]byte
		if _, err := io.ReadFull(p.in, head[:2]); err != nil {
			return "", err
		}
		n := int(head[1])
		if n == 126 {
			if _, err := io.ReadFull(p.in, head[2:]); err != nil {
				return "", err
			}
			n = int(binary.BigEndian.Uint16(head[2:]))
		}
		payload := make([]byte, n)
		if _, err := io.ReadFull(p.in, payload); err != nil {
			return "", err
		}
		switch head[0] & 15 {
		case 1:
			if string(payload) == "{}" {
				_, _ = p.Write(p.frame(1, "{}"))
				continue
			}
			return string(payload), nil
		case 8:
			return "", fmt.Errorf("closed: %q", payload)
		}
	}
}

// innocence is what a client saw that did no harm.
type innocence struct {
	answers, connects []time.Duration
	refused           int
}

// endure asks a hundred times a second, and connects twenty times a second, for a while.
func endure(ctx context.Context, t *target, length time.Duration) (in innocence, err error) {
	p, err := t.dial(ctx)
	if err != nil {
		return in, err
	}
	defer func() { _ = p.Close() }()
	question := "how are you"
	if t.proto == "sluice" { // a subscriber that publishes to itself
		if _, err := p.ask(`{"id":2,"subscribe":{"channel":"ticks:innocent"}}`); err != nil {
			return in, err
		}
		question = `{"id":3,"publish":{"channel":"ticks:innocent","data":1}}`
	}
	var connecting sync.WaitGroup
	connecting.Go(func() {
		for end := time.Now().Add(length); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			began := time.Now()
			c, err := t.dial(ctx)
			if err == nil && t.proto != "sluice" {
				_, err = c.ask("hello")
			}
			if err != nil {
				in.refused++
				continue
			}
			in.connects = append(in.connects, time.Since(began))
			_ = c.Close()
		}
	})
	defer connecting.Wait()
	for end := time.Now().Add(length); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		began := time.Now()
		answer, err := p.ask(question)
		for err == nil && t.proto == "sluice" && !strings.Contains(answer, `"push"`) { // the acknowledgment, perhaps with the publication
			if strings.Contains(answer, `"error"`) {
				return in, errors.New(answer)
			}
			answer, err = p.receive()
		}
		if err != nil {
			return in, err
		}
		in.answers = append(in.answers, time.Since(began))
		for t.proto == "sluice" && p.in.Buffered() > 0 {
			if _, err := p.receive(); err != nil {
				return in, err
			}
		}
	}
	return in, nil
}

// attack makes the connections of one process and holds them until its input ends.
func attack(args []string, stdin io.Reader, stdout io.Writer) error {
	kind, proto, addr := args[0], args[1], args[2]
	n, err := strconv.Atoi(args[3])
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	few := make(chan struct{}, 64) // that connect at a time
	var begun, over sync.WaitGroup
	for range n {
		few <- struct{}{}
		begun.Add(1)
		over.Go(func() {
			p, err := dialAttacker(ctx, proto, addr, kind == "unread")
			<-few
			if err != nil {
				fmt.Fprintln(os.Stderr, "attack:", err)
				begun.Done()
				return
			}
			context.AfterFunc(ctx, func() { _ = p.Close() })
			if kind == "names" {
				begun.Done()
				p.names()
				return
			}
			p.unread()
			begun.Done()
			<-ctx.Done()
		})
	}
	begun.Wait()
	if err := json.NewEncoder(stdout).Encode(started{addr}); err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, stdin)
	stop()
	over.Wait()
	return nil
}

// unread asks 2,500 questions, or as many as are taken, and reads no answer.
func (p *peer) unread() {
	ping := bytes.Repeat(p.frame(9, strings.Repeat("x", 125)), 100)
	for range 25 {
		_ = p.SetWriteDeadline(time.Now().Add(time.Second))
		if _, err := p.Write(ping); err != nil {
			return
		}
	}
}

// names subscribes to ever new channels, and leaves them, as fast as it can.
func (p *peer) names() {
	_, _ = p.ask(`{"id":1,"connect":{}}`)
	go func() { _, _ = io.Copy(io.Discard, p.in) }()
	tag := p.LocalAddr().(*net.TCPAddr).Port
	for i := 0; ; i++ {
		var b strings.Builder
		for range 50 {
			i++
			name := fmt.Sprintf("ticks:%d-%d", tag, i)
			fmt.Fprintf(&b, `{"id":2,"subscribe":{"channel":%q}}`+"\n"+`{"id":3,"unsubscribe":{"channel":%q}}`+"\n", name, name)
		}
		if _, err := p.Write(p.frame(1, strings.TrimSpace(b.String()))); err != nil {
			return
		}
	}
}
