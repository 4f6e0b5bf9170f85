package main

import (
	"encoding/json"
	"fmt"
	"sync/atomic"

	"github.com/centrifugal/centrifuge-go"
)

// begun waits until the subscription has begun, and compares what the client says then.
func (f *follower) begun(wasRecovering, recovered bool) centrifuge.StreamPosition {
	e := await(f.subscribed, func(centrifuge.SubscribedEvent) bool { return true }, "subscribed "+f.sdk.Channel)
	equal(fmt.Sprint(e.WasRecovering, e.Recovered), fmt.Sprint(wasRecovering, recovered))
	return *e.StreamPosition
}

// The ways in which a server says that what a client has is not valid any more.
var resets = []func(n *node, p *person, followers []*follower){
	func(n *node, p *person, _ []*follower) { // all of the connection
		n.api("disconnect", map[string]any{"client": p.clientID(), "code": 3014, "reason": "reset"})
		p.await("connecting 3014")
		p.await("connected")
	},
	func(n *node, p *person, followers []*follower) { // each subscription alone
		for _, f := range followers {
			n.api("unsubscribe", map[string]any{"channel": f.sdk.Channel, "client": p.clientID(), "code": 2502, "reason": "reset"})
			await(f.subscribing, func(e centrifuge.SubscribingEvent) bool { return e.Code == 2502 && e.Reason == "reset" }, "subscribing again")
		}
	},
}

// forgets resets a client over and over: it begins anew, misses nothing from then on, and recovers from its new position.
func forgets(n *node, create create) {
	var tokens atomic.Int32
	p := connect(n, create, func(centrifuge.ConnectionTokenEvent) (string, error) { return fmt.Sprint("token ", tokens.Add(1)), nil })
	recoverable := centrifuge.SubscriptionConfig{Positioned: true, Recoverable: true}
	fossil := recoverable
	fossil.Delta = centrifuge.DeltaTypeFossil
	followers := []*follower{p.follow("long:news", recoverable), p.follow("deltas:a", fossil)}
	epochs := map[*follower]string{}
	for _, f := range followers {
		epochs[f] = f.begun(false, false).Epoch
	}
	published := 0
	publish := func() (want string) {
		published++
		data := map[string]any{"i": published, "pad": "the same in all of them, the same in all of them, the same in all of them"}
		for _, f := range followers {
			n.publish(f.sdk.Channel, data)
		}
		text, err := json.Marshal(data)
		check(err)
		return string(text)
	}
	all := func(want string) {
		for _, f := range followers {
			f.want(want)
		}
	}
	for range 3 {
		for _, reset := range resets {
			all(publish())
			reset(n, p, followers)
			for _, f := range followers {
				at := f.begun(true, false)
				equal(at, centrifuge.StreamPosition{Offset: uint64(published), Epoch: epochs[f]})
			}
			all(publish()) // a difference to what the client has forgotten would not decode

			p.setOffline(true) // from its new position it recovers
			want := publish()
			p.setOffline(false)
			for _, f := range followers {
				f.begun(true, true)
			}
			all(want)
			p.await("connected")
		}
	}
	equal(tokens.Load(), int32(1+3)) // the first, and one after each reset of the connection
}

// stopsWithoutTokens: if an application gives no function for tokens, the client takes a reset of the connection as its end, and cannot connect again
// with what it has.
func stopsWithoutTokens(n *node) {
	p := connect(n, centrifuge.NewJsonClient, nil)
	f := p.follow("long:news", centrifuge.SubscriptionConfig{Positioned: true, Recoverable: true})
	f.begun(false, false)
	n.publish("long:news", 1)
	f.want("1")
	n.api("disconnect", map[string]any{"client": p.clientID(), "code": 3014, "reason": "reset"})
	p.await("disconnected 1")
	check(p.sdk.Connect())
	p.await("disconnected 1")
}

// recoversFromNothing: a client that has subscribed to a channel without publications has an epoch and no offset. It recovers from the first
// publication on, and not in another epoch.
func recoversFromNothing(n *node, create create) {
	p := connect(n, create, nil)
	recoverable := centrifuge.SubscriptionConfig{Positioned: true, Recoverable: true}
	f := p.follow("long:new", recoverable)
	at := f.begun(false, false)
	equal(at.Offset, uint64(0))
	equal(at.Epoch != "", true)
	p.setOffline(true) // and once more without any publication
	p.setOffline(false)
	equal(f.begun(true, true), at)
	p.setOffline(true)
	for i := range 3 {
		n.publish("long:new", i)
	}
	p.setOffline(false)
	f.begun(true, true)
	f.want("0", "1", "2")
	check(f.sdk.Unsubscribe())
	n.publish("long:new", 3)
	check(f.sdk.Subscribe())
	f.begun(true, true)
	f.want("3")

	empty := p.follow("long:empty", recoverable)
	empty.begun(false, false)
	n.restart()
	fresh := empty.begun(true, false)
	equal(fresh.Offset, uint64(0))
	equal(fresh.Epoch != "" && fresh.Epoch != at.Epoch, true)
	n.publish("long:empty", 1) // the same number as in the epoch that is over
	empty.want("1")
	p.setOffline(true)
	n.publish("long:empty", 2)
	p.setOffline(false)
	empty.begun(true, true)
	empty.want("2")
}
