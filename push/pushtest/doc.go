// Package pushtest is what the tests of the platform have in common: the suite that every broker has to pass, a clock that is moved
// by hand, and a broker that misbehaves on demand.
//
// # Testing a broker
//
// The author of a broker writes one test:
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
//
//	func TestBroker(t *testing.T) {
//		pushtest.RunBroker(t, func(t *testing.T) pushtest.Harness {
//			b := mybroker.New(…)
//			return pushtest.Harness{Broker: b, …}
//		})
//	}
//
// The function opens a broker on an empty store for each check; the suite closes what it is given, and what else was started ends by
// t.Cleanup. The other fields of [Harness] say what the broker can do besides: a check that needs something the harness does
// not have is left out. Each check is bounded in time by [Patience]; run it with the race detector.
//
// A broker that lets publishers wait for slow followers should be opened with queues of some ten messages and a wait of some ten
// milliseconds: the suite fills the queues and waits for the refusal. A broker that only keeps time by its own clock is tested with
// ages of seconds in real time, one with [Harness.Advance] more thoroughly and at once.
//
// # Durable brokers
//
// A broker that keeps its data outside of itself offers what can go wrong with that: a restart ([Harness.Reopen]), a crash
// ([Harness.Crash]), a store that is lost ([Harness.Recreate], and [Harness.Replace] while it is in use), one that was put back from an
// older copy ([Harness.Snapshot], [Harness.Rewind]), and connections that break ([Harness.Cut]). What has to hold is the same each
// time: what was acknowledged is there, once and in its place, or the epoch is another one; followers are told. While something is
// wrong every operation may fail, but it does so within the check's patience, and afterwards all work again without being asked to.
//
// What the checks expect is said in package broker. Where brokers may differ, they are lenient: offsets may have gaps, a floor may be
// higher than necessary as long as it lies below what is shown of a stream, less may be kept than History.Bytes allows, a lease
// may last a second longer than asked for, a follower that is too slow for what is kept may be told of a gap or hold publishers back,
// a publish that failed may have stored its publication, once.
package pushtest
