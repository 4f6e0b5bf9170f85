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
	// caseTime is how long a case may take. The testsuite itself gives up after 480 s.
	caseTime = 10 * time.Minute
)

// client is our side when the testsuite is the server. Each connection is a case, in which the client echoes every message.
type client struct {
	address, agent string
}

// run runs all cases of a wstest and makes it write its report.
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
		var status struct{ Behavior string } // answered after the testsuite has finished the case, too
		if err := c.ask(ctx, "getCaseStatus", number, &status); err != nil {
			return fmt.Errorf("case %s: %w", id, err)
		}
	}
	return c.ask(ctx, "updateReports", nil, nil)
}

// echo sends back every message until the connection ends. The testsuite judges how it ended.
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

// options returns the options for a case. In some cases of chapter 13 the server insists on a client without context takeover, so the client
// must offer that.
func options(id string) *websocket.Options {
	without := strings.HasPrefix(id, "13.2.") || strings.HasPrefix(id, "13.5.") || strings.HasPrefix(id, "13.6.")
	return &websocket.Options{
		MaxMessage:  maxMessage,
		Compression: &websocket.Compression{Takeover: !without, PeerTakeover: true},
	}
}

// ask makes a connection that is not a case, and decodes the answer. If answer is nil, the server must close the connection without one.
func (c client) ask(ctx context.Context, what string, values url.Values, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, caseTime)
	defer cancel()
	conn, err := websocket.Dial(ctx, c.url(what, values), nil)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	defer conn.CloseNow()
	m, err := conn.Receive(ctx)
	if answer == nil { // no message is expected, only the end
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

// url returns an address of the testsuite.
func (c client) url(what string, values url.Values) string {
	all := url.Values{"agent": {c.agent}}
	for name, value := range values {
		all[name] = value
	}
	return "ws://" + c.address + "/" + what + "?" + all.Encode()
}
