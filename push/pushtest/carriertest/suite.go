package carriertest

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-push/sluice/push/broker/memory"
	"github.com/sluice-push/sluice/push/gateway"
)

// Patience is the time limit of one check of the suite.
const Patience = 60 * time.Second

// Run runs the suite: each check is a subtest.
func Run(t *testing.T, h Harness) {
	t.Helper()
	for _, c := range checks {
		if c.needs != nil && !c.needs(&h) {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			if !c.takesTime || h.RealTime {
				runCheck(t, c, h, loopback{own: h.Listen})
				return
			}
			synctest.Test(t, func(t *testing.T) { runCheck(t, c, h, inMemory{}) })
		})
	}
}

// check is one requirement for a carrier.
type check struct {
	name      string
	needs     func(*Harness) bool // nil if every carrier has to meet it
	takesTime bool                // something happens only after a while
	run       func(*suite)
}

// What checks need.
var (
	commands = (*Harness).sends
	oneWay   = func(h *Harness) bool { return h.Way == gateway.OneWay }
	emulated = func(h *Harness) bool { return h.Way == gateway.Emulated }
	early    = func(h *Harness) bool { return h.sends() || h.ConnectsLate }
)

// checks is the whole suite.
var checks = []check{
	{"connect/answer", nil, false, checkConnect},
	{"connect/refused", nil, false, checkConnectRefused},
	{"connect/twice", commands, false, checkConnectTwice},
	{"connect/first", commands, false, checkConnectFirst},
	{"connect/late", early, true, checkConnectLate},
	{"subscribe/one", nil, false, checkSubscribe},
	{"subscribe/many", nil, false, checkSubscribeMany},
	{"subscribe/while publishing", commands, false, checkSubscribeWhilePublishing},
	{"unsubscribe/by the client", commands, false, checkUnsubscribe},
	{"unsubscribe/by the server", nil, false, checkServerUnsubscribes},
	{"publish", commands, false, checkPublish},
	{"order", nil, false, checkOrder},
	{"many clients", nil, false, checkManyClients},
	{"history", commands, false, checkHistory},
	{"presence", commands, false, checkPresence},
	{"join and leave", nil, false, checkJoinLeave},
	{"calls", commands, false, checkCalls},
	{"ping/command", commands, false, checkPingCommand},
	{"ping/answered", nil, true, checkPings},
	{"ping/unanswered", commands, true, checkNoPong},
	{"recover/same node", nil, false, func(s *suite) { checkRecover(s, false) }},
	{"recover/other node", nil, false, func(s *suite) { checkRecover(s, true) }},
	{"recover/table", nil, false, checkRecoverTable},
	{"recover/too late", nil, false, checkRecoverTooLate},
	{"recover/by the last id", oneWay, false, checkRecoverByID},
	{"other node", emulated, false, checkOtherNode},
	{"table/rows", nil, false, checkTable},
	{"table/map", commands, false, checkMap},
	{"table/rate", nil, true, checkRate},
	{"delta/value", nil, false, checkDelta},
	{"delta/map", commands, false, checkMapDelta},
	{"numbers", commands, false, checkNumbers},
	{"slow/table", nil, false, checkSlowTable},
	{"slow/stream", nil, false, checkSlowStream},
	{"slow/policies", nil, false, checkSlowPolicies},
	{"slow/replies", commands, false, checkSlowReplies},
	{"slow/time-out", nil, true, checkWriteTimeout},
	{"end/codes", nil, false, checkCodes},
	{"end/shutdown", nil, false, checkShutdown},
	{"end/statistics", nil, false, checkStatistics},
	{"routes/told", nil, false, checkRoutesTold},
	{"routes/move", nil, false, checkMove},
	{"routes/drain", nil, false, checkDrainMoves},
	{"routes/wrong gateway", nil, false, checkWrongGateway},
	{"refusal/clients", nil, false, checkTooManyClients},
	{"refusal/users", nil, false, checkTooManyOfUser},
	{"refusal/connects", nil, true, checkTooManyConnects},
	{"refusal/commands", commands, false, checkBadCommands},
	{"refusal/frames", commands, false, checkBadFrames},
	{"refusal/unfinished", commands, false, checkUnfinished},
	{"refusal/flood", commands, false, checkFlood},
	{"refusal/requests", oneWay, false, checkBadRequests},
}

// tester is the part of *testing.T that checks use. It is an interface, so that the tests of this package can plant bugs and see a check fail.
type tester interface {
	Helper()
	Context() context.Context
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// suite is the state of a running check.
type suite struct {
	tester
	harness Harness
	network network
	ctx     context.Context
	broker  *memory.Broker // of all nodes
	log     logs

	responseTimeout time.Duration // of responses over net/http; none if 0

	running sync.WaitGroup // goroutines of the check
	endings []func()       // called at the end, the last one first
}

// runCheck runs a check and releases everything.
func runCheck(t tester, c check, h Harness, n network) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), Patience)
	defer cancel()
	s := &suite{tester: t, harness: h, network: n, ctx: ctx, broker: memory.New(nil)}
	defer s.end()
	s.atEnd("the check's goroutines", s.running.Wait) // their clients are gone then
	s.atEnd("to end what waits", cancel)
	c.run(s)
}

// atEnd has a function called when the check ends. If it does not return in time, the check fails.
func (s *suite) atEnd(what string, f func()) {
	s.endings = append(s.endings, func() {
		s.Helper()
		done := make(chan struct{})
		go func() {
			defer close(done)
			f()
		}()
		timer := time.NewTimer(Patience)
		defer timer.Stop()
		select {
		case <-done:
		case <-timer.C:
			s.Errorf("at the end: %s takes too long", what)
		}
	})
}

func (s *suite) end() {
	s.Helper()
	for len(s.endings) > 0 {
		last := len(s.endings) - 1
		f := s.endings[last]
		s.endings = s.endings[:last]
		f()
	}
	if err := s.broker.Close(); err != nil {
		s.Errorf("close the broker: %v", err)
	}
	for line := range strings.Lines(s.log.read()) {
		s.Errorf("logged: %s", line)
	}
}

// background runs a function in a goroutine. done waits for it; the end of the check does in any case.
func (s *suite) background(f func()) (done func()) {
	ended := make(chan struct{})
	s.running.Go(func() {
		defer close(ended)
		f()
	})
	return func() { <-ended }
}

// must ends the check if there is an error.
func (s *suite) must(what string, err error) {
	s.Helper()
	if err != nil {
		s.Fatalf("%s: %v", what, err)
	}
}

// within runs f, which takes no context. If the check has no time left, it fails the check.
func (s *suite) within(what string, f func()) {
	s.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	s.wait(what, done)
}

// wait waits until done is closed. If the check has no time left, it fails the check.
func (s *suite) wait(what string, done <-chan struct{}) {
	s.Helper()
	select {
	case <-done:
	case <-s.ctx.Done():
		s.Fatalf("%s takes too long", what)
	}
}

// eventually calls condition until it returns true, less and less often.
func (s *suite) eventually(what string, condition func() bool) {
	s.Helper()
	for pause := time.Millisecond; !condition(); pause = min(2*pause, 100*time.Millisecond) {
		select {
		case <-time.After(pause):
		case <-s.ctx.Done():
			s.Fatalf("%s: it never came to that", what)
		}
	}
}

// logs holds what nodes log: warnings and errors, of which there are to be none.
type logs struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logs) read() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *logs) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelWarn}))
}
