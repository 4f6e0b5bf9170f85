package gateway

import (
	"encoding/json"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/gateway/settings"
	"github.com/sluice-push/sluice/push/protocol"
)

// paceMethod is the name of the call that changes how a client is served, see package settings.
const paceMethod = "sluice.pace"

// rpc carries out a call. There is one, which changes how the client is served.
func (c *Client) rpc(id uint32, r *protocol.RPCRequest) error {
	if r.Method != paceMethod {
		return push.ErrNotAvailable
	}
	var asked settings.Settings
	if len(r.Data) > 0 {
		var err error
		if asked, err = settings.Decode("rpc.data", r.Data); err != nil {
			return err
		}
	}
	h, out := c.hub.Load(), settings.Settings{Channel: asked.Channel}
	switch {
	case asked.Interval == nil && asked.Bandwidth == nil:
		return push.ErrBadRequest.WithMessage("rpc.data.interval (milliseconds) or rpc.data.bandwidth (bytes per second) is missing")
	case asked.Lost:
		return push.ErrBadRequest.WithMessage("rpc.data.lost is allowed only in subscribe: leave it out")
	case asked.Interval != nil && asked.Channel == "":
		return push.ErrBadRequest.WithMessage("rpc.data.channel is missing: an interval applies to one subscription")
	}
	if asked.Interval != nil {
		holds, err := h.SetInterval(asked.Channel, asked.IntervalAsked())
		if err != nil {
			return err
		}
		ms := holds.Milliseconds()
		out.Interval = &ms
	}
	if asked.Bandwidth != nil {
		holds := h.SetBandwidth(asked.BandwidthAsked())
		out.Bandwidth = &holds
	}
	data, _ := json.Marshal(out) // cannot fail: a string and numbers
	return c.reply(&protocol.Reply{ID: id, Kind: protocol.KindRPC, RPC: protocol.RPCResult{Data: data}})
}
