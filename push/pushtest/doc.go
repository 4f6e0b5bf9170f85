// Package pushtest provides the conformance suite for brokers, a clock that tests set by hand, and a broker with faults on demand.
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
// The function opens a broker on an empty store for each check. The suite closes that broker; t.Cleanup has to end anything else that the
// function started. The other fields of [Harness] describe further abilities of the broker. A check that needs an ability that the harness does
// not have is left out. [Patience] bounds the time of each check. Run the suite with the race detector.
//
// If a broker lets publishers wait for slow followers, open it with queues of some ten messages and a wait of some ten milliseconds: the suite
// fills the queues and waits for the refusal. If a broker keeps time only by its own clock, the suite tests it with ages of seconds in real
// time. With [Harness.Advance] it tests more thoroughly, and at once.
//
// # Durable brokers
//
// A broker that stores its data outside of its process offers the faults that may occur there: a restart ([Harness.Reopen]), a crash
// ([Harness.Crash]), the loss of the store ([Harness.Recreate], and [Harness.Replace] while it is in use), an older copy of the store
// ([Harness.Snapshot], [Harness.Rewind]), and broken connections ([Harness.Cut]). The requirement is the same each time: every acknowledged
// publication is stored, once and in its place, or the epoch is another one; followers are told. During the fault every operation may fail, but
// has to return within the check's patience. Afterwards all operations have to work again by themselves.
//
// Package broker specifies what the checks expect. The checks are lenient where brokers may differ: offsets may have gaps, a floor may be higher
// than necessary as long as it lies below the publications shown of a stream, fewer publications may be stored than History.Bytes allows, a
// lease may last a second longer than requested, a follower that is too slow for the stored history may get a gap or hold publishers back, and a
// publish that failed may have stored its publication, once.
package pushtest
