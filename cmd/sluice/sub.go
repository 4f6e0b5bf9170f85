package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/sluice-push/sluice/cmd/sluice/internal/clientconn"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/protocol"
)

// subCmd prints the publications of some channels.
type subCmd struct {
	URL      string   `default:"http://127.0.0.1:8000" env:"SLUICE_URL" help:"The node's public address."`
	Channels []string `arg:"" name:"channel" help:"Channels to subscribe to."`
	Count    int      `short:"n" help:"Number of publications after which the command exits."`
	Quiet    bool     `short:"q" help:"Print only the data, and no messages about the connection."`

	clientFlags `set:"transport=websocket"`

	Interval  time.Duration `help:"Minimum time between two deliveries of a channel. Values and tables are conflated: the newest publication is delivered."`
	Bandwidth int64         `placeholder:"BYTES" help:"Bandwidth limit of the connection, in bytes per second."`
	Delta     string        `enum:"none,fossil,merge" default:"none" help:"Delta format to request (none, fossil, merge), if the namespace allows it."`
}

// Validate implements kong.Validatable.
func (c *subCmd) Validate() error {
	switch {
	case c.Interval < 0:
		return fmt.Errorf("--interval %v is negative: use 0 or more", c.Interval)
	case c.Interval%time.Millisecond != 0:
		return fmt.Errorf("--interval %v is not a whole number of milliseconds: round it", c.Interval)
	case c.Bandwidth < 0:
		return fmt.Errorf("--bandwidth %d is negative: use 0 or more", c.Bandwidth)
	}
	return c.check()
}

// errEnough ends a subscription that has printed as many publications as the user asked for.
var errEnough = errors.New("enough")

// Run prints publications until a signal. If the connection is lost, it connects again and resumes.
func (c *subCmd) Run(env *environment) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	s := newSubscriber(c, env)
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
		s.note("%v; reconnecting", err)
		pause := time.Duration(rand.Int64N(int64(min(100*time.Millisecond<<min(tries, 7), 10*time.Second))))
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil
		}
	}
}

// finalError is an error that a new connection would not cure.
type finalError struct{ error }

func (e *finalError) Unwrap() error { return e.error }

// subscriber is a client with the subscriptions of the command. It outlives its connections.
type subscriber struct {
	cmd     *subCmd
	env     *environment
	subs    map[string]*subState // by channel
	printed int
	waiting int // subscriptions that are not confirmed yet
	routes  *clientconn.Routes
}

// subState is one subscription.
type subState struct {
	id     uint32         // of the command that requests it
	at     *push.Position // nil before the first answer
	deltas *deltaState    // nil if publications come whole
}

func newSubscriber(c *subCmd, env *environment) *subscriber {
	s := &subscriber{cmd: c, env: env, subs: map[string]*subState{}, routes: clientconn.NewRoutes(c.URL, c.Token)}
	for _, name := range c.Channels {
		if s.subs[name] != nil {
			continue // given twice
		}
		s.subs[name] = &subState{id: uint32(len(s.subs)) + 2} //nolint:gosec // a few; 1 is the connect command
	}
	return s
}

func (s *subscriber) note(format string, args ...any) {
	if !s.cmd.Quiet {
		_, _ = fmt.Fprintf(s.env.stderr, "sluice: "+format+"\n", args...)
	}
}

// settings returns data that asks the node for how to serve a connection or a subscription; nil without a wish.
func settings(name string, value int64) []byte {
	if value == 0 {
		return nil
	}
	data, _ := json.Marshal(map[string]map[string]int64{"sluice": {name: value}}) // never fails
	return data
}

// connect returns the connect command.
func (s *subscriber) connect() *protocol.Command {
	c := s.cmd.connect()
	c.Connect.Data = settings("bandwidth", s.cmd.Bandwidth)
	return c
}

// subscribe returns the command that requests a subscription, from where it was.
func (s *subscriber) subscribe(name string) *protocol.Command {
	sub := s.subs[name]
	r := protocol.SubscribeRequest{Channel: name, Positioned: true, Recoverable: true}
	r.Data = settings("interval", s.cmd.Interval.Milliseconds())
	if s.cmd.Delta != "none" {
		r.Delta = s.cmd.Delta
	}
	if sub.at != nil {
		r.Recover, r.Position = true, *sub.at
	}
	return &protocol.Command{ID: sub.id, Kind: protocol.KindSubscribe, Subscribe: r}
}

// errMoved ends a connection to a gateway that sends the client to another one.
var errMoved = errors.New("the node sends its client to another one")

// stream connects once and prints publications until the connection ends. In a cluster, it connects to the gateways that it was told of.
func (s *subscriber) stream(ctx context.Context) error {
	conn, err := s.dial(ctx)
	if refused := new(clientconn.Refused); errors.As(err, &refused) && !refused.IsTemporary() {
		return &finalError{err}
	}
	if err != nil {
		return err
	}
	defer conn.Close()
	var r protocol.Reply
	for {
		if err := conn.Receive(ctx, &r); err != nil {
			if closed := new(clientconn.Closed); errors.As(err, &closed) && !closed.Reconnect() {
				return &finalError{err}
			}
			return err
		}
		if s.routes.Told(&r) {
			return errMoved
		}
		if r.Kind == protocol.KindConnect {
			var all []*protocol.Command
			for _, name := range s.names() {
				all = append(all, s.subscribe(name))
			}
			s.waiting = len(all)
			if err := conn.Send(ctx, all...); err != nil {
				return err
			}
			continue
		}
		if err := s.handle(&r); err != nil {
			return err
		}
	}
}

// dial connects to the next gateway, and asks for the list of them if there is none left.
func (s *subscriber) dial(ctx context.Context) (*clientconn.Conn, error) {
	if s.routes.IsEmpty() {
		if err := s.routes.Ask(ctx, s.cmd.Channels[0]); err != nil {
			return nil, err
		}
	}
	return clientconn.Dial(ctx, s.cmd.options(s.routes.Next(), s.connect()))
}

// handle prints what a reply says.
func (s *subscriber) handle(r *protocol.Reply) error {
	name := s.channelOf(r.ID)
	switch {
	case r.Error != nil:
		err := fmt.Errorf("the node refused %s: %s (code %d)", name, r.Error.Message, r.Error.Code)
		if r.Error.Temporary {
			return err
		}
		return &finalError{err}
	case r.Kind == protocol.KindSubscribe:
		return s.begin(name, &r.Subscribe)
	case r.Kind != protocol.KindPush:
		return nil
	}
	p := &r.Push
	switch sub := s.subs[p.Channel]; {
	case sub == nil:
		return nil
	case p.Kind == protocol.PushPublication:
		return s.print(p.Channel, &p.Publication)
	case p.Kind == protocol.PushUnsubscribe:
		return fmt.Errorf("the node ended the subscription to %s: %s (code %d)", p.Channel, p.Unsubscribe.Reason, p.Unsubscribe.Code)
	}
	return nil
}

// names returns the channels, each once, in the order in which they were given.
func (s *subscriber) names() []string {
	return slices.SortedFunc(maps.Keys(s.subs), func(a, b string) int { return cmp.Compare(s.subs[a].id, s.subs[b].id) })
}

// channelOf returns the channel that a command with an ID requests, and what to call the connect command.
func (s *subscriber) channelOf(id uint32) string {
	for name, sub := range s.subs {
		if sub.id == id {
			return name
		}
	}
	return "the connection"
}

// begin starts a subscription that the node has confirmed, with the publications of the answer.
func (s *subscriber) begin(name string, r *protocol.SubscribeResult) error {
	sub := s.subs[name]
	if r.WasRecovering && !r.Recovered {
		s.note("%s: publications may have been missed", name)
	}
	switch {
	case !r.Delta:
		sub.deltas = nil
	case sub.deltas == nil || !r.Recovered:
		form, _ := push.ParseDelta(s.cmd.Delta)
		sub.deltas = &deltaState{form: form, quoted: s.cmd.protocol() == "json", held: map[string][]byte{}}
	}
	at := r.Position // the reply's memory is used again
	sub.at = &at
	if s.waiting--; s.waiting == 0 {
		s.note("subscribed to %s", strings.Join(s.cmd.Channels, ", "))
	}
	for i := range r.Publications {
		if err := s.print(name, &r.Publications[i]); err != nil {
			return err
		}
	}
	return nil
}

// print prints one publication as a line: the channel if there are several, the key if it has one, the data.
func (s *subscriber) print(channel string, p *push.Publication) error {
	sub := s.subs[channel]
	if b := sub.deltas; b != nil {
		if err := b.resolve(channel, p); err != nil {
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
	switch p.Op {
	case push.Remove:
		line = append(line, "removed")
	case push.Clear:
		line = append(line, "cleared")
	default:
		line = append(line, string(p.Data))
	}
	if _, err := fmt.Fprintln(s.env.stdout, strings.Join(line, " ")); err != nil {
		return &finalError{err}
	}
	if p.Offset != 0 { // a row of a sweep has none, but the last
		sub.at.Offset = p.Offset
	}
	if s.printed++; s.printed == s.cmd.Count {
		return errEnough
	}
	return nil
}
