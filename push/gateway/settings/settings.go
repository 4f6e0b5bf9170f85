// Package settings has how a client asks to be served: the member sluice of the data of its commands, and of the answers to them. SDKs show both to
// the application and do not look into them.
//
//	connect    {"sluice": {"bandwidth": BYTES A SECOND, "channel": NAME}}
//	subscribe  {"sluice": {"interval": MILLISECONDS, "lost": true}}
//	rpc        sluice.pace  {"bandwidth": …} or {"channel": NAME, "interval": …}
//
// What holds is answered in the same place.
package settings

import (
	"encoding/json"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/hub"
	"github.com/sluice-push/sluice/push/pace"
	"github.com/sluice-push/sluice/push/protocol"
)

// Settings are what a client asks for, or what holds.
type Settings struct {
	// Channel is the one that an interval is for. With connect it is the channel that the client mainly wants, by which a cluster may choose its
	// gateway. It is not checked.
	Channel   string `json:"channel,omitempty"`
	Interval  *int64 `json:"interval,omitempty"`  // in milliseconds; 0: as often as the namespace allows; nil: not asked for
	Bandwidth *int64 `json:"bandwidth,omitempty"` // in bytes per second; 0: as many as the node allows; nil: not asked for
	Lost      bool   `json:"lost,omitempty"`      // be told what is lost, by the tag push.TagLost; answered when losses will be told

	// Routes are the URLs of gateways to which the client may go, the best first. They are answered to connect, and never asked for.
	Routes []string `json:"routes,omitempty"`

	bounds pace.Bounds // the same as the hub has it
}

// Parse reads the settings in the data of a command, of which member is the name, such as connect.data. Data without them is the application's. An
// error is a *push.Error for the client.
func Parse(member string, data []byte) (Settings, error) {
	if len(data) == 0 || data[0] != '{' {
		return Settings{}, nil
	}
	var in map[string]json.RawMessage // not a struct, whose names match in any case
	_ = json.Unmarshal(data, &in)     // the decoder of commands has seen that it is JSON
	mine, ok := in["sluice"]
	if !ok {
		return Settings{}, nil
	}
	return Decode(member+".sluice", mine)
}

// Decode reads settings that are not inside of other data. Errors are as those of Parse.
func Decode(member string, data []byte) (s Settings, err error) {
	var in map[string]json.RawMessage // as in Parse
	if err := json.Unmarshal(data, &in); err != nil {
		return s, push.ErrBadRequest.WithMessage("%s: %v", member, err)
	}
	for name, to := range map[string]any{"channel": &s.Channel, "interval": &s.Interval, "bandwidth": &s.Bandwidth, "lost": &s.Lost} {
		if value, ok := in[name]; ok {
			if err := json.Unmarshal(value, to); err != nil {
				return s, push.ErrBadRequest.WithMessage("%s.%s: %v", member, name, err)
			}
		}
	}
	if s.bounds, err = pace.BoundsOf(s.Interval, s.Bandwidth); err != nil {
		return s, push.ErrBadRequest.WithMessage("%s.%v", member, err)
	}
	return s, nil
}

// OfInterval returns settings with an interval, in milliseconds, or an error if it is out of bounds.
func OfInterval(ms int64) (s Settings, err error) {
	s.Interval = &ms
	s.bounds, err = pace.BoundsOf(s.Interval, nil)
	return s, err
}

// Request returns what the hub is asked for by a request to subscribe with these settings.
func (s Settings) Request(r *protocol.SubscribeRequest) hub.SubscribeRequest {
	form, _ := push.ParseDelta(r.Delta) // what is not known here is not agreed to
	return hub.SubscribeRequest{
		Channel: r.Channel, Numbered: r.Flag&protocol.SubscribeFlagCompaction != 0, Interval: s.IntervalAsked(), Lost: s.Lost, Delta: form,
		// The published SDKs keep what they have of a whole channel, and that of a map by key.
		Keyed: form == push.Merge || r.Type == protocol.SubscriptionMap,
	}
}

// IntervalAsked returns the interval as the hub is asked for it; 0: as often as the namespace allows.
func (s Settings) IntervalAsked() time.Duration {
	if s.bounds.Interval == nil {
		return 0
	}
	return *s.bounds.Interval
}

// BandwidthAsked returns the bandwidth as the hub is asked for it; 0: as much as the node allows.
func (s Settings) BandwidthAsked() int64 {
	if s.bounds.Bandwidth == nil {
		return 0
	}
	return *s.bounds.Bandwidth
}

// Connected returns the data of the answer to connect: the bandwidth that holds, if it was asked for or there is a bound, and routes. It is nil if
// there is nothing to say.
func (s Settings) Connected(bandwidth int64, routes []string) []byte {
	out := Settings{Routes: routes}
	if s.Bandwidth != nil || bandwidth != 0 {
		out.Bandwidth = &bandwidth
	}
	if out.Bandwidth == nil && len(routes) == 0 {
		return nil
	}
	return out.wrap()
}

// Subscribed returns the data of the answer to subscribe: what holds, if it was asked for or differs from the default. It is nil if there is nothing
// to say.
func (s Settings) Subscribed(now *hub.Subscribed) []byte {
	out := Settings{Lost: now.Lost}
	if s.Interval != nil || now.Interval != 0 {
		ms := now.Interval.Milliseconds()
		out.Interval = &ms
	}
	if out.Interval == nil && !out.Lost {
		return nil
	}
	return out.wrap()
}

func (s Settings) wrap() []byte {
	data, _ := json.Marshal(struct { // cannot fail: texts, numbers and truth values
		Sluice Settings `json:"sluice"`
	}{s})
	return data
}
