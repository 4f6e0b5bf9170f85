package jwks_test

import (
	"context"
	"crypto/elliptic"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-push/sluice/push/auth"
	"github.com/sluice-push/sluice/push/auth/jwks"
)

// While the server is down at the start, tokens are refused as unavailable; when it comes up they are accepted, at the next token.
func TestDownAtStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := new(provider)
		p.set(func() { p.fault, p.delay = errDown, time.Second })
		c, log := start(t, p)
		want(t, c, "a", "unavailable", time.Second) // the first request
		want(t, c, "a", "unavailable", 0)           // the next one would be too soon
		pass(4 * time.Second)
		p.set(func() { p.fault, p.status, p.body = nil, 200, set(edKey("a")) })
		want(t, c, "a", "found", time.Second)
		want(t, c, "a", "found", 0)
		if got := p.count(); got != 2 {
			t.Errorf("%d requests", got)
		}
		if log.lines("level=WARN") != 1 || log.lines("level=INFO") != 1 || strings.Contains(log.String(), "pass"+"word") || !strings.Contains(log.String(), "id.example") {
			t.Errorf("the log is\n%s", log)
		}
	})
}

// The last good set is kept while the server is down, for days. The requests become rarer, and are never more frequent than Refresh in the end.
func TestDownLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := new(provider)
		p.serve(set(edKey("a")))
		c, log := start(t, p)
		want(t, c, "a", "found", 0)
		p.fail(errDown)
		const days = 7
		for range days * 24 {
			pass(time.Hour)
			want(t, c, "a", "found", 0)
		}
		p.mu.Lock()
		times := slices.Clone(p.requests)
		p.mu.Unlock()
		var pauses []time.Duration
		for i := range times[1:] {
			pauses = append(pauses, times[i+1].Sub(times[i]))
		}
		const m = time.Minute
		first := []time.Duration{5 * m, 5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second, 160 * time.Second, 5 * m, 5 * m}
		if !slices.Equal(pauses[:len(first)], first) {
			t.Errorf("the pauses are %v, want %v", pauses[:len(first)], first)
		}
		for i, pause := range pauses[len(first):] {
			if pause != 5*m {
				t.Fatalf("pause %d is %v", len(first)+i, pause)
			}
		}
		if log.lines("level=WARN") != 1 {
			t.Errorf("the log is\n%s", log)
		}
		p.serve(set(edKey("b")))
		for n := p.count(); p.count() == n; {
			pass(time.Second)
		}
		want(t, c, "b", "found", 0)
		if log.lines("level=INFO") != 1 {
			t.Errorf("the log is\n%s", log)
		}
		p.fail(errDown) // the pauses begin anew
		n := p.count()
		pass(5*m + 7*time.Second)
		if got := p.count() - n; got != 2 {
			t.Errorf("%d requests", got)
		}
		if log.lines("level=WARN") != 2 {
			t.Errorf("the log is\n%s", log)
		}
	})
}

// A token with a new key is accepted as soon as the set may be fetched again, twice within a minute; one with a key that is gone is refused.
func TestRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := new(provider)
		p.serve(set(edKey("a")))
		c, _ := start(t, p)
		want(t, c, "a", "found", 0)
		pass(10 * time.Second)
		p.serve(set(edKey("a"), edKey("b")))
		p.set(func() { p.delay = 100 * time.Millisecond })
		want(t, c, "b", "found", 100*time.Millisecond)
		want(t, c, "a", "found", 0)
		p.serve(set(edKey("c")))
		want(t, c, "c", "unavailable", 0) // too soon: the client comes again
		pass(20 * time.Second)
		want(t, c, "c", "found", 0)
		want(t, c, "a", "unavailable", 0)
		pass(5 * time.Second)
		want(t, c, "a", "unknown_key", 0) // the set is newer than the token
		if got := p.count(); got != 4 {
			t.Errorf("%d requests", got)
		}
	})
}

// A server that does not answer holds up neither tokens whose key is known, nor more than those that wait for the same request.
func TestSlowServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := new(provider)
		p.serve(set(edKey("a")))
		c, _ := start(t, p)
		want(t, c, "a", "found", 0)
		pass(10 * time.Second)
		p.set(func() { p.delay = -1 })
		done := make(chan struct{})
		go func() {
			defer close(done)
			want(t, c, "b", "unavailable", 5*time.Second) // Timeout
		}()
		synctest.Wait()
		for range 100 {
			want(t, c, "a", "found", 0)
			want(t, c, "b", "unavailable", 0)
		}
		<-done
		want(t, c, "a", "found", 0)
		if p.count() != 2 || p.canceled != 1 {
			t.Errorf("%d requests, of which %d were given up", p.count(), p.canceled)
		}
	})
}

// A request that takes longer than a pause is the only one, and a token that came later does not wait for it.
func TestRequestLongerThanPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := new(provider)
		p.serve(set(edKey("a")))
		c := jwks.Start(jwks.Options{URL: "https://id.example", HTTP: p.client(), Timeout: 20 * time.Second})
		defer c.Close()
		want(t, c, "a", "found", 0)
		p.set(func() { p.delay = -1 })
		pass(5*time.Minute + 10*time.Second)
		want(t, c, "b", "unavailable", 0)
		p.serve(set(edKey("b")))
		pass(10*time.Second + time.Millisecond) // the time-out
		if got := p.count(); got != 2 {
			t.Errorf("%d requests", got)
		}
		want(t, c, "b", "found", 0) // asks for another
	})
}

// A flood of tokens with keys that do not exist makes one request each pause, and nobody with a good token waits.
func TestFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := new(provider)
		p.serve(set(edKey("a")))
		p.set(func() { p.delay = 50 * time.Millisecond })
		c, _ := start(t, p)
		want(t, c, "a", "found", 50*time.Millisecond)
		var flood sync.WaitGroup
		for i := range 100 {
			flood.Go(func() {
				for n := range 600 {
					if got, took := outcome(t, c, fmt.Sprintf("%d-%d", i, n)); got == "found" || took > 50*time.Millisecond {
						t.Errorf("%s after %v", got, took)
					}
					<-time.After(100 * time.Millisecond)
				}
			})
		}
		for range 600 {
			want(t, c, "a", "found", 0)
			<-time.After(100 * time.Millisecond)
		}
		flood.Wait()
		if got := p.count(); got < 10 || got > 14 {
			t.Errorf("%d requests in a minute", got)
		}
	})
}

// Many tokens that wait for the first request all get what it brings. A call that is given up returns.
func TestManyWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := new(provider)
		p.serve(set(edKey("a")))
		p.set(func() { p.delay = time.Second })
		c, _ := start(t, p)
		var group sync.WaitGroup
		for range 50 {
			group.Go(func() { want(t, c, "a", "found", time.Second) })
		}
		group.Wait()
		if got := p.count(); got != 1 {
			t.Errorf("%d requests", got)
		}
		ctx, cancel := context.WithCancel(t.Context())
		pass(time.Minute)
		time.AfterFunc(200*time.Millisecond, cancel)
		_, err := c.Find(ctx, "EdDSA", "b")
		var refused *auth.Error
		if !errors.As(err, &refused) || refused.Reason != auth.Unavailable || !errors.Is(err, context.Canceled) {
			t.Errorf("a call whose context ends: %v", err)
		}
	})
}

// Answers that are no set change nothing.
func TestBadAnswers(t *testing.T) {
	good := set(edKey("a"))
	for what, change := range map[string]func(*provider){
		"garbage":       func(p *provider) { p.body = "<html>" },
		"empty":         func(p *provider) { p.body = "" },
		"empty set":     func(p *provider) { p.body = `{"keys":[]}` },
		"only secrets":  func(p *provider) { p.body = `{"keys":[{"kty":"oct","k":"AAAA","kid":"b"}]}` },
		"1 MiB and one": func(p *provider) { p.body = set(edKey("b")) + strings.Repeat(" ", 1<<20+1-len(set(edKey("b")))) },
		"redirect":      func(p *provider) { p.status = 302 },
		"moved":         func(p *provider) { p.status = 308 },
		"500":           func(p *provider) { p.status = 500 },
		"404":           func(p *provider) { p.status = 404 },
		"no content":    func(p *provider) { p.status = 204 },
		"partial":       func(p *provider) { p.status = 206 },
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := new(provider)
				p.serve(good)
				c, log := start(t, p)
				want(t, c, "a", "found", 0)
				p.serve(set(edKey("b")))
				p.set(func() { change(p) })
				pass(time.Minute)
				want(t, c, "b", "unavailable", 0)
				want(t, c, "a", "found", 0)
				if p.count() != 2 || log.lines("level=WARN") != 1 {
					t.Errorf("%d requests, and the log is\n%s", p.count(), log)
				}
				p.serve(set(edKey("b")) + strings.Repeat(" ", 1<<20-len(set(edKey("b"))))) // 1 MiB
				pass(time.Minute)
				want(t, c, "b", "found", 0)
			})
		})
	}
}

// A body that breaks off is no set.
func TestBodyBreaks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := jwks.Start(jwks.Options{URL: "https://id.example", HTTP: &http.Client{Transport: broken{}}})
		defer c.Close()
		want(t, c, "a", "unavailable", 0)
	})
}

// broken is a server whose body breaks off after a good set.
type broken struct{}

// RoundTrip implements [http.RoundTripper].
func (broken) RoundTrip(r *http.Request) (*http.Response, error) {
	body := io.MultiReader(strings.NewReader(set(edKey("a"))), errorReader{})
	return &http.Response{StatusCode: 200, Body: io.NopCloser(body), Request: r}, nil
}

type errorReader struct{}

// Read implements [io.Reader].
func (errorReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// A URL that is none is reported like a server that is down.
func TestBadURL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(logged)
		c := jwks.Start(jwks.Options{URL: "https://user:pass" + "word@[", Logger: slog.New(slog.NewTextHandler(log, nil))})
		defer c.Close()
		want(t, c, "a", "unavailable", 0)
		if log.lines("level=WARN") != 1 || strings.Contains(log.String(), "pass"+"word") {
			t.Errorf("the log is\n%s", log)
		}
	})
}

// Keys that are left out are reported once, and again when others are.
func TestLeftOutIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := new(provider)
		p.serve(set(edKey("a")))
		_, log := start(t, p)
		pass(time.Hour)
		if got := log.String(); got != "" {
			t.Errorf("nothing is left out, and the log is\n%s", got)
		}
		for i, secret := range []string{"b", "c"} {
			p.serve(set(edKey("a"), `{"kty":"oct","kid":"`+secret+`"}`))
			pass(time.Hour)
			if got := log.lines("left out"); got != i+1 || !strings.Contains(log.String(), secret) {
				t.Errorf("the log is\n%s", log)
			}
		}
		p.serve(set(edKey("a")))
		pass(time.Hour)
		p.serve(set(edKey("a"), `{"kty":"oct","kid":"c"}`))
		pass(time.Hour)
		if got := log.lines("left out"); got != 3 {
			t.Errorf("the log is\n%s", log)
		}
	})
}

// Close ends the request that is under way, and the calls that wait for it. Keys that are known stay.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := new(provider)
		p.set(func() { p.delay = -1 })
		first, _ := start(t, p)
		synctest.Wait()
		time.AfterFunc(time.Second, first.Close)
		want(t, first, "a", "unavailable", time.Second)
		want(t, first, "a", "unavailable", 0)

		p.serve(set(edKey("a")))
		second, log := start(t, p)
		want(t, second, "a", "found", 0)
		pass(time.Minute)
		p.set(func() { p.delay = -1 })
		time.AfterFunc(time.Second, second.Close)
		want(t, second, "b", "unavailable", time.Second)
		pass(time.Minute)
		want(t, second, "b", "unavailable", 0) // not "unknown": nobody has looked
		want(t, second, "a", "found", 0)
		second.Close()
		n := p.count()
		pass(time.Hour)
		if p.count() != n || log.String() != "" {
			t.Errorf("%d requests after Close, and the log is\n%s", p.count()-n, log)
		}
	})
}

// Which keys are for a token: those with its kid and its algorithm, all of its algorithm if it has no kid, and not too many.
func TestFind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := new(provider)
		entries := slices.Repeat([]string{entry(mustEd25519(), member{"kid", "many"})}, auth.MostKeys+4)
		p.serve(set(append(entries,
			entry(mustEC(elliptic.P256())), entry(rsaKey(), member{"kid", "rsa"}), entry(rsaKey(), member{"kid", "ps"}, member{"alg", "PS256"}), entry(rsaKey(), member{"kid", "rsa"}),
		)...))
		c, _ := start(t, p)
		for _, tt := range []struct {
			algorithm, kid string
			want           int
		}{
			{"EdDSA", "many", auth.MostKeys},
			{"EdDSA", "", auth.MostKeys},
			{"RS256", "rsa", 2},
			{"PS256", "rsa", 2},
			{"PS256", "ps", 1},
			{"PS256", "", 3},
			{"RS256", "", 2},
			{"RS256", "ps", 0},
			{"PS384", "ps", 0},
			{"EdDSA", "rsa", 0},
			{"HS256", "", 0},
			{"HS256", "rsa", 0},
			{"EdDSA", "Many", 0},
			{"none", "", 0},
			{"ES256", "", 1},
			{"ES256", "rsa", 0}, // the key has no ID, so it is not that one
			{"ES384", "", 0},
		} {
			if keys, err := c.Find(t.Context(), tt.algorithm, tt.kid); len(keys) != tt.want || (err == nil) != (tt.want > 0) {
				t.Errorf("%s %q: %d keys, %v", tt.algorithm, tt.kid, len(keys), err)
			}
		}
	})
}

// Close returns when nothing of the client runs any more.
func TestCloseWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := new(provider)
		p.set(func() { p.delay, p.linger = -1, time.Second })
		c, _ := start(t, p)
		synctest.Wait()
		began := time.Now()
		c.Close()
		if took := time.Since(began); took != time.Second {
			t.Errorf("Close took %v, while a request went on for 1 s", took)
		}
	})
}

// A token that asks for the set at the moment at which it is fetched anyway causes no other request.
func TestAskedAtRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := new(provider)
		p.serve(set(edKey("a")))
		c, _ := start(t, p)
		want(t, c, "a", "found", 0)
		for range 200 {
			<-time.After(5 * time.Minute)
			_, _ = outcome(t, c, "b")
		}
		synctest.Wait()
		if got := p.count(); got != 201 {
			t.Errorf("%d requests", got)
		}
	})
}

// A Refresh below Pause is Pause.
func TestRefreshBelowPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := new(provider)
		p.serve(set(edKey("a")))
		c := jwks.Start(jwks.Options{URL: "https://id.example", HTTP: p.client(), Refresh: time.Second})
		defer c.Close()
		pass(time.Minute - time.Second)
		if got := p.count(); got != 12 {
			t.Errorf("%d requests in a minute", got)
		}
	})
}
