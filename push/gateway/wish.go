package gateway

import (
	"encoding/json"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/hub"
	"github.com/sluice-push/sluice/push/pace"
	"github.com/sluice-push/sluice/push/protocol"
)

// wish is how a client asks to be served, in the member sluice of the data of connect and subscribe, and in the call sluice.pace.
// What holds is answered in the same place. SDKs show both to the application and do not look into them.
//
//	connect    {"sluice": {"bandwidth": BYTES A SECOND}}
//	subscribe  {"sluice": {"interval": MILLISECONDS, "lost": true}}
//	rpc        sluice.pace  {"bandwidth": …} or {"channel": NAME, "interval": …}
type wish struct {
	Channel   string `json:"channel,omitempty"`
	Interval  *int64 `json:"interval,omitempty"`  // 0: as often as the namespace allows
	Bandwidth *int64 `json:"bandwidth,omitempty"` // 0: as many as the node allows
	Lost      bool   `json:"lost,omitempty"`      // be told what is lost, by the tag push.TagLost; answered when losses will be told

	bounds pace.Bounds // the same as the hub has it
}

// paceMethod is the name of the call.
const paceMethod = "sluice.pace"

// parseWish reads what a client asks for in a member of a command. Data that says nothing about it is the application's.
func parseWish(member string, data []byte) (wish, error) {
	if len(data) == 0 || data[0] != '{' {
		return wish{}, nil
	}
	var in map[string]json.RawMessage // not a struct, whose names match in any case
	_ = json.Unmarshal(data, &in)     // the decoder of commands has seen that it is JSON
	mine, ok := in["sluice"]
	if !ok {
		return wish{}, nil
	}
	return decodeWish(member+".sluice", mine)
}

func decodeWish(member string, data []byte) (w wish, err error) {
	var in map[string]json.RawMessage // likewise
	if err := json.Unmarshal(data, &in); err != nil {
		return w, push.ErrBadRequest.WithMessage("%s: %v", member, err)
	}
	for name, to := range map[string]any{"channel": &w.Channel, "interval": &w.Interval, "bandwidth": &w.Bandwidth, "lost": &w.Lost} {
		if value, ok := in[name]; ok {
			if err := json.Unmarshal(value, to); err != nil {
				return w, push.ErrBadRequest.WithMessage("%s.%s: %v", member, name, err)
			}
		}
	}
	if w.bounds, err = pace.BoundsOf(w.Interval, w.Bandwidth); err != nil {
		return w, push.ErrBadRequest.WithMessage("%s.%v", member, err)
	}
	return w, nil
}

// request returns what the hub is asked for by a request to subscribe.
func (w wish) request(r *protocol.SubscribeRequest) hub.SubscribeRequest {
	form, _ := push.ParseDelta(r.Delta) // what is not known here is not agreed to
	return hub.SubscribeRequest{
		Channel: r.Channel, Numbered: r.Flag&protocol.SubscribeFlagCompaction != 0, Interval: w.interval(), Lost: w.Lost, Delta: form,
		// The published SDKs keep what they have of a whole channel, and that of a map by key.
		Keyed: form == push.Merge || r.Type == protocol.SubscriptionMap,
	}
}

// interval returns what the hub is asked for.
func (w wish) interval() time.Duration {
	if w.bounds.Interval == nil {
		return 0
	}
	return *w.bounds.Interval
}

// bandwidth returns what the hub is asked for.
func (w wish) bandwidth() int64 {
	if w.bounds.Bandwidth == nil {
		return 0
	}
	return *w.bounds.Bandwidth
}

// connected returns the data of the answer to connect: what holds, if it was asked for or anything does.
func (w wish) connected(bandwidth int64) []byte {
	if w.Bandwidth == nil && bandwidth == 0 {
		return nil
	}
	return wish{Bandwidth: &bandwidth}.wrap()
}

// subscribed returns the data of the answer to subscribe, likewise.
func (w wish) subscribed(s *hub.Subscribed) []byte {
	out := wish{Lost: s.Lost}
	if w.Interval != nil || s.Interval != 0 {
		ms := s.Interval.Milliseconds()
		out.Interval = &ms
	}
	if out.Interval == nil && !out.Lost {
		return nil
	}
	return out.wrap()
}

func (w wish) wrap() []byte {
	data, _ := json.Marshal(struct { // cannot fail: numbers and truth values
		Sluice wish `json:"sluice"`
	}{w})
	return data
}

// rpc carries out a call. There is one, which changes how the client is served.
func (c *Client) rpc(id uint32, r *protocol.RPCRequest) error {
	if r.Method != paceMethod {
		return push.ErrNotAvailable
	}
	w := wish{}
	if len(r.Data) > 0 {
		var err error
		if w, err = decodeWish("rpc.data", r.Data); err != nil {
			return err
		}
	}
	h, out := c.hub.Load(), wish{Channel: w.Channel}
	switch {
	case w.Interval == nil && w.Bandwidth == nil:
		return push.ErrBadRequest.WithMessage("rpc.data.interval (milliseconds) or rpc.data.bandwidth (bytes per second) is missing")
	case w.Lost:
		return push.ErrBadRequest.WithMessage("rpc.data.lost is allowed only in subscribe: leave it out")
	case w.Interval != nil && w.Channel == "":
		return push.ErrBadRequest.WithMessage("rpc.data.channel is missing: an interval applies to one subscription")
	}
	if w.Interval != nil {
		holds, err := h.SetInterval(w.Channel, w.interval())
		if err != nil {
			return err
		}
		ms := holds.Milliseconds()
		out.Interval = &ms
	}
	if w.Bandwidth != nil {
		holds := h.SetBandwidth(w.bandwidth())
		out.Bandwidth = &holds
	}
	data, _ := json.Marshal(out) // cannot fail: a string and numbers
	return c.reply(&protocol.Reply{ID: id, Kind: protocol.KindRPC, RPC: protocol.RPCResult{Data: data}})
}
