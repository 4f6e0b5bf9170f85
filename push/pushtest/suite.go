package pushtest

import (
	"context"
	"testing"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
)

// Patience is the time limit of one check of the suite.
const Patience = 60 * time.Second

// Harness is a broker on an empty store, with functions that control the broker and its store.
type Harness struct {
	// Broker is the broker, without open namespaces. The suite closes it.
	Broker broker.Broker
	// WantedOnly says that followers get the channels that they want and no others. The suite has them want every channel that it publishes to.
	WantedOnly bool
	// Conflates says that a follower that is slow may get the newest version of a row only, and not those before.
	Conflates bool
	// HoldsUp says that a follower that blocks holds up the other followers of its partition too.
	HoldsUp bool
	// Durable says that the broker supports durable namespaces. Otherwise it has to refuse them.
	Durable bool
	// MaxPublication is the size of the largest publication that the broker stores. It is 0 if the limit is not below 8 MiB.
	MaxPublication int
	// Advance moves the clock by which the broker dates publications, and by which history, idempotency keys and leases age. It is nil if only
	// real time does that.
	Advance func(d time.Duration)
	// Reopen returns another broker on the same store, as after a restart. It is called after Close. It is nil if a restart loses all data.
	Reopen func() broker.Broker
	// Recreate returns another broker on a store that was lost and made again under the same names. It is called after Close. It is nil if that
	// cannot happen.
	Recreate func() broker.Broker
	// Snapshot copies the store for Rewind. It is called while the broker is open and no operation is running: everything acknowledged until
	// then is in the copy. It is nil, like Rewind, if the store cannot be copied.
	Snapshot func()
	// Rewind replaces the store by the copy that Snapshot made, which is older than the positions that clients have, and returns another broker
	// on it. It is called after Close. From then on Reopen refers to that store.
	Rewind func() broker.Broker
	// Cut breaks every connection between the broker and its server, which keeps running. The broker reconnects by itself. Cut is called from
	// one goroutine while operations may be running, and again as soon as it has returned. It is nil if there is no connection.
	Cut func()
	// Replace deletes the server's store and makes it again under the same names, while the broker stays open. The broker recovers by itself, in
	// a new epoch. Replace is nil if that cannot happen.
	Replace func()
	// Crash ends the process with the store without warning, like kill -9 but unlike a loss of power, and returns another broker on the same
	// store. It is called while the broker is in use. The suite then closes the old broker and ignores the result, if Crash has not closed it.
	// Crash is nil if a crash loses all data.
	Crash func() broker.Broker
}

// RunBroker runs the suite: each check is a subtest with a broker of its own from open.
func RunBroker(t *testing.T, open func(t *testing.T) Harness) {
	offered := open(t)
	if err := offered.Broker.Close(); err != nil {
		t.Fatalf("close a broker that was not used: %v", err)
	}
	for _, c := range checks {
		if c.needs != nil && !c.needs(offered) {
			continue
		}
		t.Run(c.name, func(t *testing.T) { runCheck(t, c, open(t)) })
	}
}

// check is one requirement for a broker.
type check struct {
	name  string
	needs func(Harness) bool // nil if a broker is enough
	run   func(*suite)
}

// checks is the whole suite.
var checks = []check{
	{"order", nil, checkOrder},
	{"two followers", nil, checkTwoFollowers},
	{"partitions", nil, checkPartitions},
	{"detach", nil, checkDetach},
	{"slow follower", nil, checkSlowFollower},
	{"slow follower of little", nil, checkSlowFollowerEvicted},
	{"join/stream", nil, func(s *suite) { checkJoin(s, push.Stream) }},
	{"join/table", nil, func(s *suite) { checkJoin(s, push.Table) }},
	{"publish while loading", nil, checkPublishWhileLoading},
	{"load what was delivered/stream", nil, func(s *suite) { checkLoadWhatWasDelivered(s, push.Stream) }},
	{"load what was delivered/table", nil, func(s *suite) { checkLoadWhatWasDelivered(s, push.Table) }},
	{"load ends with visit", nil, checkVisitError},
	{"interest", nil, checkInterest},
	{"rows only", nil, checkRowsOnly},
	{"stats", nil, checkStats},
	{"history/size", nil, checkSize},
	{"history/bytes", nil, checkBytes},
	{"history/age", nil, checkAge},
	{"history/unlimited", nil, checkUnlimited},
	{"history/random/stream", nil, func(s *suite) { checkRandom(s, push.Stream) }},
	{"history/random/value", nil, func(s *suite) { checkRandom(s, push.Value) }},
	{"history/random/table", nil, func(s *suite) { checkRandom(s, push.Table) }},
	{"rows/newest", nil, checkRows},
	{"rows/never age", advances, checkRowsNeverAge},
	{"rows/outlive their age", nil, checkRowsOutliveAge},
	{"rows/removals by size", nil, checkRemovalsBySize},
	{"rows/value", nil, checkValue},
	{"clear/stream", nil, func(s *suite) { checkClear(s, push.Stream) }},
	{"clear/value", nil, func(s *suite) { checkClear(s, push.Value) }},
	{"clear/table", nil, func(s *suite) { checkClear(s, push.Table) }},
	{"idempotency/keys", nil, checkIdempotency},
	{"idempotency/concurrent", nil, checkIdempotencyConcurrent},
	{"idempotency/window", advances, checkIdempotencyWindow},
	{"positions", nil, checkPositions},
	{"restart", func(h Harness) bool { return h.Reopen != nil }, checkRestart},
	{"lost store", func(h Harness) bool { return h.Recreate != nil }, checkLostStore},
	{"crash", func(h Harness) bool { return h.Crash != nil }, checkCrash},
	{"older copy of the store", func(h Harness) bool { return h.Snapshot != nil && h.Rewind != nil }, checkRewind},
	{"store lost while attached", func(h Harness) bool { return h.Replace != nil }, checkReplace},
	{"cut/publications", cuts, checkCut},
	{"cut/services", cuts, checkCutServices},
	{"names", nil, checkNames},
	{"round trip", nil, checkRoundTrip},
	{"too large", func(h Harness) bool { return h.MaxPublication > 0 }, checkTooLarge},
	{"settings", nil, checkSettings},
	{"unknown", nil, checkUnknown},
	{"cancelled", nil, checkCancelled},
	{"close", nil, checkClose},
	{"close while busy", nil, checkCloseWhileBusy},
	{"control/addresses", nil, checkControl},
	{"control/stop", nil, checkControlStop},
	{"leases/list", nil, checkLeases},
	{"leases/expire", nil, checkLeaseExpiry},
	{"leases/clock", advances, checkLeaseClock},
}

func advances(h Harness) bool { return h.Advance != nil }

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
	broker  broker.Broker // the one in use: that of the harness, or its successor after a restart
	ctx     context.Context
}

// runCheck runs a check and closes the broker.
func runCheck(t tester, c check, h Harness) {
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	s := &suite{tester: t, harness: h, broker: newInterested(h.Broker), ctx: ctx}
	defer func() { s.close() }()
	c.run(s)
}

// close closes the broker in use.
func (s *suite) close() {
	s.Helper()
	s.within("close", func() {
		if err := s.broker.Close(); err != nil {
			s.Errorf("close: %v", err)
		}
	})
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

// eventually calls condition until it returns true.
func (s *suite) eventually(what string, condition func() bool) {
	s.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for !condition() {
		select {
		case <-ticker.C:
		case <-s.ctx.Done():
			s.Fatalf("%s: it never came to that", what)
		}
	}
}

// advance moves the broker's clock.
func (s *suite) advance(d time.Duration) { s.harness.Advance(d) }

// must ends the check if there is an error.
func (s *suite) must(what string, err error) {
	s.Helper()
	if err != nil {
		s.Fatalf("%s: %v", what, err)
	}
}

// open opens a namespace with one partition.
func (s *suite) open(name string, mode push.Mode, h push.History) {
	s.Helper()
	s.openWith(broker.Namespace{Name: name, Mode: mode, History: h, Partitions: 1})
}

func (s *suite) openWith(ns broker.Namespace) {
	s.Helper()
	ns.Durable = s.harness.Durable
	s.must("open", s.broker.Open(s.ctx, ns))
}

// publish publishes, and returns the message that has to be delivered, except for its time.
func (s *suite) publish(channel string, p push.Publication) broker.Message {
	s.Helper()
	pos, err := s.broker.Publish(s.ctx, channel, p, broker.PublishOptions{})
	s.must("publish", err)
	p.Offset = pos.Offset
	return broker.Message{Channel: channel, Publication: p}
}

// set publishes data under a key.
func (s *suite) set(channel, key, data string) broker.Message {
	s.Helper()
	return s.publish(channel, push.Publication{Key: key, Data: []byte(data)})
}

// remove removes a row.
func (s *suite) remove(channel, key string) broker.Message {
	s.Helper()
	return s.publish(channel, push.Publication{Key: key, Op: push.Remove})
}

// load returns the visited publications of a channel.
func (s *suite) load(channel string) ([]push.Publication, broker.History) {
	s.Helper()
	var visited []push.Publication
	h, err := s.broker.Load(s.ctx, channel, broker.LoadOptions{}, func(m broker.Message) error {
		visited = append(visited, m.Publication)
		return nil
	})
	s.must("load", err)
	return visited, h
}

// head returns the newest position of a namespace's only partition.
func (s *suite) head(namespace string) push.Position {
	s.Helper()
	pos, err := s.broker.Head(s.ctx, broker.Partition{Namespace: namespace})
	s.must("head", err)
	return pos
}

// attach attaches a follower to a namespace's only partition.
func (s *suite) attach(namespace string, f broker.Follower) broker.Attachment {
	s.Helper()
	a, err := s.broker.Attach(s.ctx, broker.Partition{Namespace: namespace}, f)
	s.must("attach", err)
	return a
}

// detach ends an attachment.
func (s *suite) detach(a broker.Attachment) {
	s.Helper()
	s.within("detach", a.Detach)
}
