package nats_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/broker/nats"
	"github.com/sluice-push/sluice/push/pushtest"
)

// reachable opens a broker whose embedded server listens, and connects to that server as a program without Sluice.
func reachable(t *testing.T, o *nats.Options) (*nats.Broker, jetstream.JetStream) {
	t.Helper()
	o.Dir, o.Listen, o.Token = t.TempDir(), "127.0.0.1:0", serverToken
	b := closing(t, open(t, o))
	return b, stranger(t, "nats://"+serverToken+"@"+b.Address())
}

// stranger connects to a server as a program without Sluice.
func stranger(t *testing.T, url string) jetstream.JetStream {
	t.Helper()
	conn, err := client.Connect(url, client.Timeout(pushtest.Patience))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		closed := make(chan struct{})
		conn.SetClosedHandler(func(*client.Conn) { close(closed) })
		conn.Close()
		testwait.Receive(t, closed)
	})
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// send publishes a message as a program without Sluice.
func send(t *testing.T, js jetstream.JetStream, m *client.Msg) {
	t.Helper()
	if _, err := js.PublishMsg(t.Context(), m); err != nil {
		t.Fatal(err)
	}
}

// TestTokenNeeded: the server refuses a client without the token.
func TestTokenNeeded(t *testing.T) {
	t.Parallel()
	b, _ := reachable(t, &nats.Options{})
	if conn, err := client.Connect("nats://" + b.Address()); err == nil {
		conn.Close()
		t.Error("a client without the token was let in")
	}
}

// TestForeignPublications: a valid publication by a program without Sluice reaches followers and loads. Other messages are left out and logged,
// and do not change offsets and floors.
func TestForeignPublications(t *testing.T) {
	t.Parallel()
	text, logger := newLog()
	b, js := reachable(t, &nats.Options{Logger: logger, Check: func(data []byte) ([]byte, error) {
		if !json.Valid(data) {
			return nil, errors.New("no JSON")
		}
		return data, nil
	}})
	stream := openNamespace(t, b, "s", push.Stream, push.History{})
	table := openNamespace(t, b, "t", push.Table, push.History{})
	inStream, inTable := follow(t, b, "s"), follow(t, b, "t")
	garbage := []*client.Msg{
		{Subject: "sluice.s.s.x:other", Data: []byte("1")},
		{Subject: "sluice.s.s.s:a.b", Data: []byte("1")},
		{Subject: "sluice.s.s.s:\xff\xfe", Data: []byte("1")},
		{Subject: "sluice.s.s.s:a", Data: []byte("no JSON")},
		{Subject: "sluice.s.s.s:a", Data: []byte("1"), Header: client.Header{"Sluice-Info": {"no JSON"}}},
		{Subject: "sluice.s.s.s:a", Data: []byte("1"), Header: client.Header{"Sluice-Info": {`{"conn_info":"ImE="}`}}},
		{Subject: "sluice.s.s.s:a", Data: []byte("1"), Header: client.Header{"Sluice-Key": {strings.Repeat("k", 40_000)}}},
		{Subject: "sluice.t.t.t:a", Data: []byte("1")},
		{Subject: "sluice.t.t.t:a.b.c.d", Data: []byte("1")},
	}
	for _, m := range garbage {
		send(t, js, m)
	}
	big := client.Header{"Sluice-Tag-t": {strings.Repeat("v", 40_000)}, "Other": {"ignored"}}
	send(t, js, &client.Msg{Subject: nats.Subject(stream, "s:a", ""), Data: []byte("2"), Header: big})
	send(t, js, &client.Msg{Subject: nats.Subject(table, "t:a", "k.k"), Data: []byte("3")})
	publish(t, b, "s:a", "", "4")
	publish(t, b, "t:a", "l", "5")
	inStream.awaitData(t, "4")
	inTable.awaitData(t, "5")
	if got := inStream.data(); !slices.Equal(got, []string{"2", "4"}) {
		t.Errorf("followers of the stream were given %q", got)
	}
	if got := inTable.data(); !slices.Equal(got, []string{"3", "5"}) {
		t.Errorf("followers of the table were given %q", got)
	}
	got, h := load(t, b, "s:a")
	if !slices.Equal(got, []string{"2", "4"}) || h.Floor != 0 || h.Head != 9 {
		t.Errorf("of the stream %q was loaded, above %d up to %d", got, h.Floor, h.Head)
	}
	if got, h := load(t, b, "t:a"); !slices.Equal(got, []string{"3", "5"}) || h.Floor != 0 || h.Head != 4 {
		t.Errorf("of the table %q was loaded, above %d up to %d", got, h.Floor, h.Head)
	}
	if n := strings.Count(text.String(), "not a publication"); n != len(garbage) {
		t.Errorf("%d messages were logged, want %d: %s", n, len(garbage), text.String())
	}
}

// streamNotCreated is JSStreamCreateErrF of the server, for which its client has no name.
const streamNotCreated = 10049

// meddling are changes that other programs may make to a stream. Followers have to be told of them, by a gap or by a new epoch.
var meddling = []struct {
	name string
	do   func(ctx context.Context, js jetstream.JetStream, s jetstream.Stream) error
}{
	{"stream deleted", func(ctx context.Context, js jetstream.JetStream, _ jetstream.Stream) error {
		return js.DeleteStream(ctx, "sluice_s_0")
	}},
	{"stream made anew", func(ctx context.Context, js jetstream.JetStream, s jetstream.Stream) error {
		config := s.CachedInfo().Config
		if err := js.DeleteStream(ctx, "sluice_s_0"); err != nil {
			return err
		}
		// The server refuses a stream whose name is still in use, and the broker makes the stream again, too.
		for {
			_, err := js.CreateStream(ctx, config)
			var refused *jetstream.APIError
			if !errors.As(err, &refused) || refused.ErrorCode != streamNotCreated {
				return err
			}
		}
	}},
	{"stream purged", func(ctx context.Context, _ jetstream.JetStream, s jetstream.Stream) error { return s.Purge(ctx) }},
	{"channel purged", func(ctx context.Context, _ jetstream.JetStream, s jetstream.Stream) error {
		return s.Purge(ctx, jetstream.WithPurgeSubject("sluice.s.s.s:a"))
	}},
	{"message deleted", func(ctx context.Context, _ jetstream.JetStream, s jetstream.Stream) error { return s.DeleteMsg(ctx, 2) }},
	{"message erased", func(ctx context.Context, _ jetstream.JetStream, s jetstream.Stream) error {
		return s.SecureDeleteMsg(ctx, 2)
	}},
}

// TestMeddling: whatever other programs do to a stream, no client that returns to the broker misses a publication silently.
func TestMeddling(t *testing.T) {
	t.Parallel()
	for _, m := range meddling {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			b, js := reachable(t, &nats.Options{})
			openNamespace(t, b, "s", push.Stream, push.History{})
			r := follow(t, b, "s")
			for _, data := range []string{"1", "2", "3"} {
				publish(t, b, "s:a", "", data)
			}
			r.awaitData(t, "3")
			before := head(t, b, "s")
			s, err := js.Stream(t.Context(), "sluice_s_0")
			if err != nil {
				t.Fatal(err)
			}
			if err := m.do(t.Context(), js, s); err != nil {
				t.Fatal(err)
			}
			r.await(t, "a new life", func() bool { return len(r.resets) > 0 })
			now := head(t, b, "s")
			if now.Epoch == before.Epoch {
				t.Errorf("the epoch is still %q", now.Epoch)
			}
			testwait.True(t, "publish", func() bool {
				_, err := b.Publish(t.Context(), "s:a", push.Publication{Data: []byte("4")}, broker.PublishOptions{IdempotencyKey: "4"})
				return err == nil
			})
			r.awaitData(t, "4")
			if _, h := load(t, b, "s:a"); h.Epoch != now.Epoch || h.Floor < now.Offset {
				t.Errorf("loaded in epoch %q above %d, the new life begins at %v", h.Epoch, h.Floor, now)
			}
		})
	}
}

// TestClearsAreOurs: deletions by the broker itself, and evictions by the limits of a namespace, do not count as deletions by other programs.
func TestClearsAreOurs(t *testing.T) {
	t.Parallel()
	b := closing(t, embedded(t, t.TempDir()))
	openNamespace(t, b, "t", push.Table, push.History{Size: 2})
	openNamespace(t, b, "s", push.Stream, push.History{Size: 2})
	inTable, inStream := follow(t, b, "t"), follow(t, b, "s")
	for range 5 {
		for _, key := range []string{"a", "b", "c"} {
			publish(t, b, "t:a", key, "x")
			publish(t, b, "s:a", "", "x")
		}
		if _, err := b.Publish(t.Context(), "t:a", push.Publication{Op: push.Clear}, broker.PublishOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	publish(t, b, "t:a", "", "end")
	publish(t, b, "s:a", "", "end")
	inTable.awaitData(t, "end")
	inStream.awaitData(t, "end")
	if len(inTable.resets)+len(inStream.resets) > 0 {
		t.Errorf("new lives began: %v, %v", inTable.resets, inStream.resets)
	}
}

// TestOldStreamName: a stream that was made under a name with a percent sign is kept and used.
func TestOldStreamName(t *testing.T) {
	t.Parallel()
	b, js := reachable(t, &nats.Options{})
	url := "nats://" + serverToken + "@" + b.Address()
	first := open(t, &nats.Options{URL: url})
	ns := openNamespace(t, first, "", push.Stream, push.History{})
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	made, err := js.Stream(t.Context(), "sluice_=_0")
	if err != nil {
		t.Fatal(err)
	}
	c := made.CachedInfo().Config
	if err := js.DeleteStream(t.Context(), c.Name); err != nil {
		t.Fatal(err)
	}
	c.Name = "sluice_%_0"
	if _, err := js.CreateStream(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	send(t, js, &client.Msg{Subject: nats.Subject(ns, "a", ""), Data: []byte("1")})

	later := closing(t, open(t, &nats.Options{URL: url}))
	openNamespace(t, later, "", push.Stream, push.History{})
	publish(t, later, "a", "", "2")
	if got, h := load(t, later, "a"); !slices.Equal(got, []string{"1", "2"}) || h.Head != 2 {
		t.Errorf("%q was loaded, up to %d", got, h.Head)
	}
	if _, err := js.Stream(t.Context(), "sluice_=_0"); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Errorf("a second stream: %v", err)
	}
}
