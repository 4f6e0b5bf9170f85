package presence_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/presence"
)

// announced collects the events of an entry.
type announced []string

func (a *announced) announce(_ context.Context, e *presence.Event) error {
	*a = append(*a, fmt.Sprintf("%s %s %t", e.Channel, e.Client.Client, e.Left))
	return nil
}

// A beginning is announced once, an end once and only after a beginning, and nothing after an end.
func TestEntryEvents(t *testing.T) {
	join, left := (*presence.Entry).Join, (*presence.Entry).Left
	for name, tt := range map[string]struct {
		calls []func(*presence.Entry, context.Context) error
		want  []string
	}{
		"in order":     {[]func(*presence.Entry, context.Context) error{join, join, left, left, join}, []string{"news ann false", "news ann true"}},
		"never begun":  {[]func(*presence.Entry, context.Context) error{left, left}, nil},
		"ended before": {[]func(*presence.Entry, context.Context) error{left, join, left}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got announced
			e := presence.NewEntry("news", push.ClientInfo{Client: "ann"}, presence.EntryOptions{Announce: got.announce})
			for _, call := range tt.calls {
				must(t, call(e, t.Context()))
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("announced %q, want %q", got, tt.want)
			}
			silent := presence.NewEntry("news", push.ClientInfo{}, presence.EntryOptions{})
			must(t, errors.Join(silent.Join(t.Context()), silent.Left(t.Context())))
		})
	}
}

// An end waits until its beginning is announced, and is announced although that failed: the broker may have stored it.
func TestEntryEventsInOrder(t *testing.T) {
	var got announced
	joining, goOn, broken := make(chan struct{}), make(chan struct{}), errors.New("broken")
	e := presence.NewEntry("news", push.ClientInfo{Client: "ann"}, presence.EntryOptions{
		Announce: func(ctx context.Context, event *presence.Event) error {
			if event.Left {
				return got.announce(ctx, event)
			}
			close(joining)
			<-goOn
			_ = got.announce(ctx, event)
			return broken
		},
	})
	joined, left := make(chan error, 1), make(chan error, 1)
	go func() { joined <- e.Join(t.Context()) }()
	testwait.Receive(t, joining)
	go func() { left <- e.Left(t.Context()) }()
	testwait.True(t, "the end waits for the beginning", func() bool {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		return slices.ContainsFunc(strings.Split(string(stacks), "\n\n"), func(stack string) bool {
			return strings.Contains(stack, "(*Entry).Left") && strings.Contains(stack, "sync.Mutex.Lock")
		})
	})
	close(goOn)
	if err := testwait.Receive(t, joined); !errors.Is(err, broken) {
		t.Errorf("the beginning: %v", err)
	}
	must(t, testwait.Receive(t, left))
	if want := []string{"news ann false", "news ann true"}; !slices.Equal(got, want) {
		t.Errorf("announced %q, want %q", got, want)
	}
}

// An entry is listed if it has a lease, and only then.
func TestEntryListed(t *testing.T) {
	b, _ := newRegistry(t)
	for _, listed := range []bool{false, true} {
		e := presence.NewEntry("news", push.ClientInfo{Client: "ann"}, presence.EntryOptions{Listed: listed})
		must(t, b.Renew(t.Context(), e))
		if got := who(t, b, "news"); len(got) > 0 != listed {
			t.Errorf("listed %t: %v", listed, got)
		}
		must(t, b.Remove(t.Context(), e))
		if got := who(t, b, "news"); len(got) > 0 {
			t.Errorf("removed: %v", got)
		}
	}
}

// An event is the same after it was a publication.
func TestEventOf(t *testing.T) {
	for _, e := range []presence.Event{{"a", &push.ClientInfo{Client: "1"}, false}, {"a", &push.ClientInfo{Client: "2", User: "u"}, true}} {
		p := e.Publication()
		if got := presence.EventOf("a", &p); got != e {
			t.Errorf("%+v became %+v", e, got)
		}
	}
	if got := presence.EventOf("a", &push.Publication{Data: []byte("1")}); got.Client == nil || got.Left {
		t.Errorf("a strange publication: %+v", got)
	}
}

// Each channel has events of its own, under a valid name.
func TestEventChannel(t *testing.T) {
	seen := map[string]string{}
	names := []string{"", "a", "a:b", "$a:b", "a:"}
	for n := push.MaxChannelLen - 12; n <= push.MaxChannelLen; n++ {
		names = append(names, strings.Repeat("x", n), strings.Repeat("x", n-1)+"y")
	}
	for _, name := range slices.Clone(names) { // a name that is made for it does not lead to the events of another channel
		names = append(names, strings.TrimPrefix(presence.EventChannel(name), presence.EventNamespace+":"))
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if push.CheckChannel(name) != nil {
			continue
		}
		of := presence.EventChannel(name)
		if err := push.CheckChannel(of); err != nil || push.Namespace(of) != presence.EventNamespace {
			t.Errorf("%q: %q, %v", name, of, err)
		}
		if other, ok := seen[of]; ok {
			t.Errorf("%q and %q share %q", name, other, of)
		}
		seen[of] = name
	}
}
