package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// strangers are the attackers of one process.
type strangers struct {
	kind, addr string
	tokens     []string
	pause      time.Duration // between two tokens of one stranger
	hello      []byte        // what begins a TLS handshake
	begun      sync.WaitGroup
}

// besiege runs the strangers of one process until its input ends: it says so when all of them have begun.
func besiege(args []string, stdin io.Reader, stdout io.Writer) error {
	n, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	rate, err := strconv.Atoi(args[3])
	if err != nil {
		return err
	}
	text, err := os.ReadFile(args[4])
	if err != nil {
		return err
	}
	s := &strangers{kind: args[0], addr: args[1], tokens: strings.Split(string(text), "\n")}
	if rate > 0 {
		s.pause = time.Duration(n) * time.Second / time.Duration(rate)
	}
	if s.hello, err = clientHello(); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	var over sync.WaitGroup
	few := make(chan struct{}, 64) // that connect at a time
	s.begun.Add(n)
	for i := range n {
		over.Go(func() { s.attack(ctx, i, few) })
	}
	s.begun.Wait()
	if err := json.NewEncoder(stdout).Encode(started{s.addr}); err != nil {
		stop()
		return err
	}
	_, _ = io.Copy(io.Discard, stdin)
	stop()
	over.Wait()
	return nil
}

// attack makes one connection after the other, as soon as the node has ended the one before.
func (s *strangers) attack(ctx context.Context, i int, few chan struct{}) {
	begun := sync.OnceFunc(s.begun.Done)
	defer begun()
	for next := time.Now(); ctx.Err() == nil; {
		few <- struct{}{}
		c, err := (&net.Dialer{Timeout: 30 * time.Second}).DialContext(ctx, "tcp", s.addr)
		<-few
		begun()
		if err != nil {
			wait(ctx, 100*time.Millisecond)
			continue
		}
		stop := context.AfterFunc(ctx, func() { _ = c.Close() })
		switch s.kind {
		case "tokens":
			s.present(c, s.tokens[i%len(s.tokens)])
			i++
			next = next.Add(s.pause)
			wait(ctx, time.Until(next))
		case "halftls":
			_, _ = c.Write(s.hello[:len(s.hello)/2])
		case "slowtls":
			for sent := 0; sent < len(s.hello); sent++ {
				if _, err := c.Write(s.hello[sent : sent+1]); err != nil {
					break
				}
				wait(ctx, time.Second)
			}
		}
		_, _ = io.Copy(io.Discard, c) // until the node ends the connection
		stop()
		_ = c.Close()
	}
}

// present connects a client with a token.
func (s *strangers) present(c net.Conn, token string) {
	if p, err := upgrade(c, "sluice", s.addr); err == nil {
		_, _ = p.ask(`{"id":1,"connect":{"token":"` + token + `"}}`) // it is refused
		_ = c.Close()
	}
}

// wait waits for a time, or until ctx ends.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// clientHello returns the record that begins a handshake of crypto/tls.
func clientHello() ([]byte, error) {
	ours, theirs := net.Pipe()
	go func() {
		_ = tls.Client(theirs, &tls.Config{ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12}).Handshake() // fails when the pipe is closed
		_ = theirs.Close()
	}()
	defer func() { _ = ours.Close() }()
	hello := make([]byte, 16<<10)
	n, err := ours.Read(hello)
	return hello[:n], err
}
