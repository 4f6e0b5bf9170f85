package gateway

import (
	"context"
	"maps"
	"slices"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/channel"
	"github.com/sluice-push/sluice/push/protocol"
)

// firstBudget bounds the publications in the answer to a connect request. All subscriptions that begin with it are in one message, which has to get
// through as a whole: together they carry no more than one would alone.
var firstBudget = channel.Budget{Entries: 512, Bytes: 32 << 10}

// beginSubscriptions begins the subscriptions with which a client connects, and adds them to what it is told: those of its identity, and those
// that the request of a one-way client names. In the request, other clients only say from where they resume. It calls moved with the client's
// position in each channel before it returns, with the lock of the hub's session held. On an error some of the subscriptions may have begun.
func (c *Client) beginSubscriptions(
	ctx context.Context, r *protocol.ConnectRequest, told *protocol.ConnectResult, moved func(channel string, p push.Position),
) error {
	granted := map[string]*ServerSubscription{}
	id := c.identity.Load()
	for i := range id.Subscriptions {
		granted[id.Subscriptions[i].Channel] = &id.Subscriptions[i]
	}
	asked := r.Subs
	if c.kind.way != OneWay {
		asked = nil
	}
	told.Subs = map[string]protocol.SubscribeResult{}
	room := firstBudget
	for _, name := range namesOf(granted, asked) {
		sub := r.Subs[name]
		sub.Channel = name
		sub.Flag &^= protocol.SubscribeFlagCompaction // pushes have names, as SDKs expect them here
		if room.Entries <= 0 || room.Bytes <= 0 {
			room.Entries = -1 // nothing more; a zero budget would be the default one
		}
		with := start{budget: room, byServer: true}
		var permission Permission
		var data []byte
		if g := granted[name]; g != nil {
			with.info, with.joins, data = g.Info, g.JoinLeave, g.Data
		} else {
			var err error
			if permission, err = c.permit(ctx, name, push.ActionSubscribe, sub.Token); err != nil {
				return err
			}
			with.info, with.joins = permission.Info, permission.joins(&sub)
		}
		err := subscribe(ctx, c.hub.Load(), &sub, with, func(answer protocol.SubscribeResult, p push.Position) error {
			c.expireSubscription(name, permission.Expires)
			answer.Expires, answer.TTL = ttl(permission.Expires)
			if answer.Data == nil {
				answer.Data = data
			}
			told.Subs[name] = answer
			for i := range answer.Publications {
				room.Entries--
				room.Bytes -= answer.Publications[i].Size()
			}
			moved(name, p)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// namesOf returns the channels of the subscriptions, sorted.
func namesOf(granted map[string]*ServerSubscription, asked map[string]protocol.SubscribeRequest) []string {
	names := slices.AppendSeq(slices.Collect(maps.Keys(granted)), maps.Keys(asked))
	slices.Sort(names)
	return slices.Compact(names)
}
