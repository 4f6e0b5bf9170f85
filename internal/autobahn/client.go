package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-push/sluice/websocket"
)

const (
	maxMessage = 64 << 20
	// caseTime is how long a case may take; the testsuite itself gives up after 480 s.
	caseTime = 10 * time.Minute
)

// client is what the testsuite tests when it is the server: each connection to it is a case, in which everything is echoed.
type client struct {
	address, agent string
}

// run runs all cases of a wstest, and has it write its report.
func (c client) run(ctx context.Context, cases []string) error {
	var count int
	if err := c.ask(ctx, "getCaseCount", nil, &count); err != nil {
		return err
	}
	if count != len(cases) {
		return fmt.Errorf("the testsuite is about to run %d cases instead of %d", count, len(cases))
	}
	for i, id := range cases {
		number := url.Values{"case": {strconv.Itoa(i + 1)}}
		c.echo(ctx, id, number)
		var status struct{ Behavior string } // comes when the case is over for the testsuite, too
		if err := c.ask(ctx, "getCaseStatus", number, &status); err != nil {
			return fmt.Errorf("case %s: %w", id, err)
		}
	}
	return c.ask(ctx, "updateReports", nil, nil)
}

// echo sends back what comes until the connection ends. Why it ends is for the testsuite to judge.
func (c client) echo(ctx context.Context, id string, number url.Values) {
	ctx, cancel := context.WithTimeout(ctx, caseTime)
	defer cancel()
	conn, err := websocket.Dial(ctx, c.url("runCase", number), options(id))
	if err != nil {
		return
	}
	for m := range conn.Messages(ctx, &err) {
		if conn.Send(m.Op, m.Data) != nil {
			break
		}
	}
	if ctx.Err() != nil {
		conn.CloseNow()
	}
}

// options are those for a case. In some of chapter 13 the server insists on a client without a context, which has to be offered.
func options(id string) *websocket.Options {
	without := strings.HasPrefix(id, "13.2.") || strings.HasPrefix(id, "13.5.") || strings.HasPrefix(id, "13.6.")
	return &websocket.Options{
		MaxMessage:  maxMessage,
		Compression: &websocket.Compression{Takeover: !without, PeerTakeover: true},
	}
}

// ask makes a connection that is not a case, and reads the answer if there is one.
func (c client) ask(ctx context.Context, what string, values url.Values, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, caseTime)
	defer cancel()
	conn, err := websocket.Dial(ctx, c.url(what, values), nil)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	defer conn.CloseNow()
	m, err := conn.Receive(ctx)
	if answer == nil { // there is nothing but the end
		if err == nil || ctx.Err() != nil {
			return fmt.Errorf("%s: %w", what, errors.Join(errors.New("the connection was not closed"), err))
		}
		return nil
	}
	if err == nil {
		err = json.Unmarshal(m.Data, answer)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// url is an address of the testsuite.
func (c client) url(what string, values url.Values) string {
	all := url.Values{"agent": {c.agent}}
	for name, value := range values {
		all[name] = value
	}
	return "ws://" + c.address + "/" + what + "?" + all.Encode()
}
