package discovery_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-push/sluice/discovery"
	"github.com/sluice-push/sluice/discovery/discoverytest"
	"github.com/sluice-push/sluice/internal/testwait"
)

// watchDNS asks a server about a service until the test ends. Each set is sent to the channel, as text.
func watchDNS(t *testing.T, s *discoverytest.DNSServer, service string) <-chan string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	sets := make(chan string)
	var watching sync.WaitGroup
	watching.Go(func() {
		d := discovery.NewDNS(&discovery.DNSOptions{Server: s.Addr(), MinInterval: time.Millisecond, MaxInterval: 10 * time.Millisecond})
		err := d.Watch(ctx, service, func(set []discovery.Endpoint) {
			var out []string
			for i := range set {
				out = append(out, fmt.Sprintf("%s*%d", set[i].Address, set[i].Share()))
			}
			select {
			case sets <- strings.Join(out, " "):
			case <-ctx.Done():
			}
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("Watch: %v", err)
		}
	})
	t.Cleanup(func() {
		cancel()
		watching.Wait()
	})
	return sets
}

// askedAgain waits until the server was asked so often that what it had to say before is known.
func askedAgain(t *testing.T, s *discoverytest.DNSServer) {
	t.Helper()
	before := s.Questions()
	testwait.True(t, "the server is asked again", func() bool { return s.Questions() >= before+8 })
}

// The set follows the records. While the server fails it stays; a name that is gone has no endpoints.
func TestDNSAddresses(t *testing.T) {
	s := discoverytest.NewDNSServer(t)
	s.Set(discoverytest.CodeFailure, false)
	sets := watchDNS(t, s, "quotes.test.:7000")
	askedAgain(t, s)
	want := func(want string) {
		t.Helper()
		if got := testwait.Receive(t, sets); got != want {
			t.Fatalf("the set is %q, want %q", got, want)
		}
	}
	s.Set(discoverytest.CodeNone, false, discoverytest.Address("quotes.test.", "10.0.0.2", 0), discoverytest.Address("quotes.test.", "10.0.0.1", 0), discoverytest.Address("other.test.", "10.0.0.3", 0))
	want("10.0.0.1:7000*100 10.0.0.2:7000*100")
	s.Set(discoverytest.CodeFailure, false)
	askedAgain(t, s)
	s.Set(discoverytest.CodeNone, false, discoverytest.Address("quotes.test.", "10.0.0.2", 0), discoverytest.Address("quotes.test.", "10.0.0.1", 0)) // nothing has changed
	askedAgain(t, s)
	s.Set(discoverytest.CodeNone, false, discoverytest.Address("quotes.test.", "10.0.0.2", 0), discoverytest.Address("quotes.test.", "2001:db8::1", 0))
	want("10.0.0.2:7000*100 [2001:db8::1]:7000*100")
	s.Set(discoverytest.CodeNone, false)
	want("")
	s.Set(discoverytest.CodeNone, true, discoverytest.Address("quotes.test.", "10.0.0.4", 0)) // by TCP
	want("10.0.0.4:7000*100")
}

// Of service records, those of the best priority are used.
func TestDNSRecords(t *testing.T) {
	s := discoverytest.NewDNSServer(t)
	const name = "_rpc._tcp.quotes.test."
	s.Set(discoverytest.CodeNone, false,
		discoverytest.SRV(name, "a.test.", 1, 1, 30), discoverytest.SRV(name, "b.test.", 2, 1, 0), discoverytest.SRV(name, "spare.test.", 3, 2, 10), discoverytest.SRV("_rpc._tcp.test.", "c.test.", 4, 0, 1))
	sets := watchDNS(t, s, name)
	if got, want := testwait.Receive(t, sets), "a.test:1*30 b.test:2*1"; got != want {
		t.Errorf("the set is %q, want %q", got, want)
	}
	s.Set(discoverytest.CodeNone, false, discoverytest.SRV(name, "spare.test.", 3, 2, 10))
	if got, want := testwait.Receive(t, sets), "spare.test:3*10"; got != want {
		t.Errorf("the set is %q, want %q", got, want)
	}
	s.Set(discoverytest.CodeNone, false, discoverytest.SRV(name, ".", 0, 0, 0)) // there is no such service
	if got := testwait.Receive(t, sets); got != "" {
		t.Errorf("the set is %q", got)
	}
}

func TestDNSRefuses(t *testing.T) {
	for _, service := range []string{"", "quotes", ":1", "quotes:0", "quotes:http", "quotes:65536"} {
		err := discovery.NewDNS(nil).Watch(t.Context(), service, func([]discovery.Endpoint) { t.Error("reported") })
		if !errors.Is(err, discovery.ErrService) || !strings.Contains(err.Error(), fmt.Sprintf("%q", service)) {
			t.Errorf("%q: %v", service, err)
		}
	}
}

// The time to live is that of the answers' records, over UDP and TCP.
func TestDNSTimeToLive(t *testing.T) {
	s := discoverytest.NewDNSServer(t)
	for _, truncated := range []bool{false, true} {
		s.Set(discoverytest.CodeNone, truncated, discoverytest.Address("quotes.test.", "10.0.0.1", 40), discoverytest.Address("quotes.test.", "10.0.0.2", 30), discoverytest.Address("quotes.test.", "2001:db8::1", 50))
		if got := discovery.AskOnce(t.Context(), s.Addr(), "quotes.test.:1"); got != 30*time.Second {
			t.Errorf("by TCP %t: the time to live is %v", truncated, got)
		}
		s.Set(discoverytest.CodeNone, truncated)
		if got := discovery.AskOnce(t.Context(), s.Addr(), "quotes.test.:1"); got != -1 {
			t.Errorf("no records, by TCP %t: the time to live is %v", truncated, got)
		}
	}
}

func TestTTLOf(t *testing.T) {
	var s discoverytest.DNSServer
	s.Set(discoverytest.CodeNone, false, discoverytest.Address("a.test.", "10.0.0.1", 9), discoverytest.Address("a.test.", "10.0.0.2", 7))
	question := discoverytest.AppendName(make([]byte, 12), "a.test.")
	question = append(question, 0, discoverytest.TypeA, 0, 1)
	binary.BigEndian.PutUint16(question[4:], 1)
	answer := s.Answer(question, false)
	if ttl, ok := discovery.TTLOf(answer); ttl != 7*time.Second || !ok {
		t.Errorf("%v, %t", ttl, ok)
	}
	if ttl, ok := discovery.TTLOf(question); ok {
		t.Errorf("a question has a time to live: %v", ttl)
	}
	for n := range answer { // the first record is whole, or it is not
		if ttl, ok := discovery.TTLOf(answer[:n]); ok && ttl != 9*time.Second && ttl != 7*time.Second {
			t.Errorf("of %d bytes: %v", n, ttl)
		}
	}
	s.Set(discoverytest.CodeNone, false, discoverytest.Address("a.test.", "10.0.0.1", 9), discoverytest.Address("a.test.", "10.0.0.2", 1<<31)) // RFC 2181 §8
	if ttl, ok := discovery.TTLOf(s.Answer(question, false)); ttl != 0 || !ok {
		t.Errorf("with the top bit: %v, %t", ttl, ok)
	}
}

func FuzzTTLOf(f *testing.F) {
	var s discoverytest.DNSServer
	s.Set(discoverytest.CodeNone, false, discoverytest.Address("a.test.", "10.0.0.1", 9))
	question := append(discoverytest.AppendName(make([]byte, 12), "a.test."), 0, discoverytest.TypeA, 0, 1)
	binary.BigEndian.PutUint16(question[4:], 1)
	f.Add(s.Answer(question, false))
	f.Fuzz(func(t *testing.T, message []byte) {
		if ttl, ok := discovery.TTLOf(message); ttl < 0 || !ok && ttl != 0 {
			t.Errorf("%v, %t", ttl, ok)
		}
	})
}
