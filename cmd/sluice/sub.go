package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/gateway"
)

// subCmd prints what is published.
type subCmd struct {
	URL      string   `default:"http://127.0.0.1:8000" env:"SLUICE_URL" help:"The node's public address."`
	Channels []string `arg:"" name:"channel" help:"Channels to subscribe to."`
	Count    int      `short:"n" help:"End after so many publications."`
	Token    string   `env:"SLUICE_TOKEN" help:"Who you are, where the node asks for that."`
	Quiet    bool     `short:"q" help:"Print the data alone, and nothing about the connection."`

	Interval  time.Duration `help:"Be served at most once in this time by each channel: of tables and values what is newest then."`
	Bandwidth int64         `placeholder:"BYTES" help:"Be sent at most so many bytes a second."`
	Delta     string        `enum:"none,fossil,merge" default:"none" help:"Be sent differences, in this form (fossil, merge), where the namespace allows it."`
}

// Validate implements kong.Validatable.
func (c *subCmd) Validate() error {
	switch {
	case c.Interval < 0:
		return fmt.Errorf("--interval %v is less than nothing", c.Interval)
	case c.Interval%time.Millisecond != 0:
		return fmt.Errorf("--interval %v is not a whole number of milliseconds", c.Interval)
	case c.Bandwidth < 0:
		return fmt.Errorf("--bandwidth %d is less than nothing", c.Bandwidth)
	}
	return nil
}

// request returns what the node is asked for.
func (c *subCmd) request() ([]byte, error) {
	type wish struct {
		Interval  int64 `json:"interval,omitempty"`
		Bandwidth int64 `json:"bandwidth,omitempty"`
	}
	type data struct {
		Sluice wish `json:"sluice"`
	}
	type options struct {
		Data  *data  `json:"data,omitempty"`
		Delta string `json:"delta,omitempty"`
	}
	var each options
	if c.Delta != "none" {
		each.Delta = c.Delta
	}
	if c.Interval > 0 {
		each.Data = &data{wish{Interval: c.Interval.Milliseconds()}}
	}
	subs := map[string]options{}
	for _, name := range c.Channels {
		subs[name] = each
	}
	out := struct {
		Token string             `json:"token"`
		Name  string             `json:"name"`
		Data  *data              `json:"data,omitempty"`
		Subs  map[string]options `json:"subs"`
	}{Token: c.Token, Name: "sluice", Subs: subs}
	if c.Bandwidth > 0 {
		out.Data = &data{wish{Bandwidth: c.Bandwidth}}
	}
	return json.Marshal(out)
}

// errEnough ends a subscription that has printed as much as was asked for.
var errEnough = errors.New("enough")

// Run prints publications until a signal. After a cut it connects again and goes on where it was.
func (c *subCmd) Run(env *environment) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	s := &subscriber{cmd: c, env: env, whole: map[string]*bases{}}
	for tries := 0; ; tries++ {
		began := s.printed
		err := s.stream(ctx)
		switch {
		case errors.Is(err, errEnough), ctx.Err() != nil:
			return nil
		case errors.As(err, new(*finalError)):
			return err
		case s.printed > began:
			tries = 0
		}
		s.note("%v; connecting again", err)
		pause := time.Duration(rand.Int64N(int64(min(100*time.Millisecond<<min(tries, 7), 10*time.Second))))
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil
		}
	}
}

// finalError is one that connecting again would not mend.
type finalError struct{ error }

func (e *finalError) Unwrap() error { return e.error }

// subscriber is one subscription over server-sent events.
type subscriber struct {
	cmd     *subCmd
	env     *environment
	lastID  string // position, as the node said it
	printed int
	whole   map[string]*bases // of the channels whose publications may come as differences
}

func (s *subscriber) note(format string, args ...any) {
	if !s.cmd.Quiet {
		_, _ = fmt.Fprintf(s.env.stderr, "sluice: "+format+"\n", args...)
	}
}

// stream connects once and prints until the stream ends.
func (s *subscriber) stream(ctx context.Context) error {
	connect, err := s.cmd.request()
	if err != nil {
		return err
	}
	address := strings.TrimRight(s.cmd.URL, "/") + gateway.SSEPath + "?cf_connect=" + url.QueryEscape(string(connect))
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return &finalError{err}
	}
	req.Header.Set("Accept", "text/event-stream")
	if s.lastID != "" {
		req.Header.Set("Last-Event-ID", s.lastID)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("%s does not answer: %w", s.cmd.URL, unwrapURL(err))
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		why, _ := io.ReadAll(io.LimitReader(resp.Body, 1024))
		err := fmt.Errorf("the node refuses: %s", strings.TrimSpace(string(why)))
		if resp.StatusCode == http.StatusServiceUnavailable {
			return err
		}
		return &finalError{err}
	}
	lines := bufio.NewReaderSize(resp.Body, 64<<10)
	id := s.lastID
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return errors.New("the connection was cut")
		}
		field, value, _ := strings.Cut(strings.TrimRight(line, "\r\n"), ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "id":
			id = value
		case "data":
			if err := s.event(value); err != nil {
				return err
			}
			s.lastID = id
		}
	}
}

// wirePublication is a publication as the node sends it.
type wirePublication struct {
	Data    json.RawMessage `json:"data"`
	Key     string          `json:"key"`
	Removed bool            `json:"removed"`
	Delta   bool            `json:"delta"`
}

// event prints one event.
func (s *subscriber) event(data string) error {
	var e struct {
		Channel string           `json:"channel"`
		Pub     *wirePublication `json:"pub"`
		Connect *struct {
			Subs map[string]struct {
				Publications  []wirePublication `json:"publications"`
				Recovered     bool              `json:"recovered"`
				WasRecovering bool              `json:"was_recovering"`
				Delta         bool              `json:"delta"`
			} `json:"subs"`
		} `json:"connect"`
		Disconnect *struct {
			Code   int    `json:"code"`
			Reason string `json:"reason"`
		} `json:"disconnect"`
	}
	if err := json.Unmarshal([]byte(data), &e); err != nil {
		return &finalError{fmt.Errorf("%s sends what is not the protocol of sluice: %w", s.cmd.URL, err)}
	}
	switch {
	case e.Pub != nil:
		return s.print(e.Channel, e.Pub)
	case e.Disconnect != nil:
		err := fmt.Errorf("the node ends the connection: %s (%d)", e.Disconnect.Reason, e.Disconnect.Code)
		if e.Disconnect.Code >= 3500 && e.Disconnect.Code < 4000 {
			return &finalError{err}
		}
		return err
	case e.Connect != nil:
		s.note("subscribed to %s", strings.Join(s.cmd.Channels, ", "))
		for _, name := range s.cmd.Channels {
			sub := e.Connect.Subs[name]
			s.begin(name, sub.Recovered, sub.Delta)
			if sub.WasRecovering && !sub.Recovered {
				s.note("%s: some publications may have been missed", name)
			}
			for i := range sub.Publications {
				if err := s.print(name, &sub.Publications[i]); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// begin notes what a channel's publications will be like.
func (s *subscriber) begin(channel string, recovered, differences bool) {
	b := s.whole[channel]
	switch {
	case !differences:
		delete(s.whole, channel)
	case b == nil:
		form, _ := push.ParseDelta(s.cmd.Delta)
		s.whole[channel] = &bases{form: form, held: map[string][]byte{}}
	case !recovered:
		clear(b.held)
	}
}

// print prints one publication as a line: the channel if there are several, the key if it has one, the data.
func (s *subscriber) print(channel string, p *wirePublication) error {
	if b := s.whole[channel]; b != nil {
		if err := b.whole(channel, p); err != nil {
			return &finalError{err}
		}
	}
	var line []string
	if !s.cmd.Quiet {
		if len(s.cmd.Channels) > 1 {
			line = append(line, channel)
		}
		if p.Key != "" {
			line = append(line, p.Key)
		}
	}
	if p.Removed {
		line = append(line, "removed")
	} else {
		line = append(line, string(p.Data))
	}
	if _, err := fmt.Fprintln(s.env.stdout, strings.Join(line, " ")); err != nil {
		return &finalError{err}
	}
	if s.printed++; s.printed == s.cmd.Count {
		return errEnough
	}
	return nil
}
