package api

import (
	"cmp"
	"context"
	"encoding/json"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/channel"
	"github.com/sluice-push/sluice/push/hub"
	"github.com/sluice-push/sluice/push/pace"
	clientjson "github.com/sluice-push/sluice/push/protocol/json"
)

type publishRequest struct {
	Channel        string            `json:"channel"`
	Data           json.RawMessage   `json:"data"`
	Key            string            `json:"key"`
	Removed        bool              `json:"removed"`
	Tags           map[string]string `json:"tags"`
	IdempotencyKey string            `json:"idempotency_key"`

	B64Data      []byte `json:"b64data"` // the bytes of data in base64, instead of data
	SkipHistory  absent `json:"skip_history"`
	Version      absent `json:"version"`
	VersionEpoch absent `json:"version_epoch"`
}

type publishResult struct {
	Offset uint64 `json:"offset"`
	Epoch  string `json:"epoch"`
}

func (a *Handler) publish(ctx context.Context, r *publishRequest) (any, error) {
	p, err := a.publication(r)
	if err != nil {
		return nil, err
	}
	return a.put(ctx, r.Channel, p, r.IdempotencyKey)
}

// put publishes to one channel.
func (a *Handler) put(ctx context.Context, name string, p push.Publication, idempotencyKey string) (any, error) {
	if err := a.allowed(ctx, name, Publish); err != nil {
		return nil, err
	}
	at, err := a.hub.Publish(ctx, name, p, idempotencyKey)
	if err != nil {
		return nil, err
	}
	return publishResult{at.Offset, at.Epoch}, nil
}

func (a *Handler) allowed(ctx context.Context, name string, action Action) error {
	if name == "" {
		return push.ErrBadRequest.WithMessage("channel is missing")
	}
	if err := checkNamespace(ctx, name); err != nil {
		return err
	}
	if a.options.Allow != nil && !a.options.Allow(name, action) {
		return push.ErrPermissionDenied.WithMessage("namespace %q does not allow this for the API", push.Namespace(name))
	}
	return nil
}

// publication returns the publication that a request describes.
func (a *Handler) publication(r *publishRequest) (push.Publication, error) {
	p := push.Publication{Key: r.Key, Tags: r.Tags}
	err := refuseAbsent(map[string]absent{"skip_history": r.SkipHistory, "version": r.Version, "version_epoch": r.VersionEpoch})
	if err != nil {
		return p, err
	}
	if len(r.B64Data) > 0 {
		if len(r.Data) > 0 && string(r.Data) != "null" {
			return p, push.ErrBadRequest.WithMessage("data and b64data exclude each other: send one of them")
		}
		r.Data = r.B64Data
	}
	hasData := len(r.Data) > 0 && string(r.Data) != "null"
	switch {
	case r.Removed && hasData:
		return p, push.ErrBadRequest.WithMessage("data and removed exclude each other: leave one out, or send tags with removed")
	case r.Removed:
		p.Op = push.Remove
		return p, nil
	case len(r.Data) == 0:
		return p, push.ErrBadRequest.WithMessage("data is missing")
	}
	if a.options.MaxData > 0 && len(r.Data) > a.options.MaxData && a.options.Exceeded() {
		return p, push.ErrLimitExceeded.WithMessage("data has %d bytes, at most %d are allowed", len(r.Data), a.options.MaxData)
	}
	data, err := clientjson.CompactData(r.Data)
	if err != nil {
		return p, push.ErrBadRequest.WithMessage("data: %v", err)
	}
	p.Data = data
	return p, nil
}

type broadcastRequest struct {
	Channels []string `json:"channels"`
	publishRequest
}

func (a *Handler) broadcast(ctx context.Context, r *broadcastRequest) (any, error) {
	if len(r.Channels) == 0 {
		return nil, push.ErrBadRequest.WithMessage("channels is missing")
	}
	p, err := a.publication(&r.publishRequest)
	if err != nil {
		return nil, err
	}
	out := struct {
		Responses []reply `json:"responses"`
	}{make([]reply, len(r.Channels))}
	for i, name := range r.Channels {
		out.Responses[i] = a.answer(a.put(ctx, name, p, r.IdempotencyKey))
	}
	return out, nil
}

// historyRemove clears a table or value. The hub refuses it for streams.
func (a *Handler) historyRemove(ctx context.Context, r *channelRequest) (any, error) {
	if _, err := a.put(ctx, r.Channel, push.Publication{Op: push.Clear}, ""); err != nil {
		return nil, err
	}
	return struct{}{}, nil
}

type historyRequest struct {
	Channel string `json:"channel"`
	Limit   int    `json:"limit"`
	Since   *struct {
		Offset uint64 `json:"offset"`
		Epoch  string `json:"epoch"`
	} `json:"since"`
	Reverse bool `json:"reverse"`
}

type publication struct {
	Data   json.RawMessage   `json:"data"`
	Offset uint64            `json:"offset"`
	Key    string            `json:"key,omitempty"`
	Tags   map[string]string `json:"tags,omitempty"`
	Info   *clientInfo       `json:"info,omitempty"`
}

type clientInfo struct {
	User     string          `json:"user"`
	Client   string          `json:"client"`
	ConnInfo json.RawMessage `json:"conn_info,omitempty"`
	ChanInfo json.RawMessage `json:"chan_info,omitempty"`
}

func infoOf(c *push.ClientInfo) *clientInfo {
	if c == nil {
		return nil
	}
	return &clientInfo{c.User, c.Client, c.ConnInfo, c.ChanInfo}
}

func (a *Handler) history(ctx context.Context, r *historyRequest) (any, error) {
	if err := a.allowed(ctx, r.Channel, History); err != nil {
		return nil, err
	}
	ask := hub.HistoryRequest{Limit: r.Limit, Reverse: r.Reverse}
	if r.Since != nil {
		ask.Since = &push.Position{Epoch: r.Since.Epoch, Offset: r.Since.Offset}
	}
	found, err := a.hub.History(ctx, r.Channel, ask)
	if err != nil {
		return nil, err
	}
	return struct {
		Publications []publication `json:"publications"`
		publishResult
	}{publications(found.Entries), publishResult{found.Position.Offset, found.Position.Epoch}}, nil
}

func publications(entries []*channel.Entry) []publication {
	out := make([]publication, len(entries))
	for i, e := range entries {
		out[i] = publication{e.Data, e.Offset, e.Key, e.Tags, infoOf(e.Info)}
	}
	return out
}

type channelRequest struct {
	Channel string `json:"channel"`
}

// presenceMembers is the largest number of clients in an answer.
const presenceMembers = 10_000

func (a *Handler) presence(ctx context.Context, r *channelRequest) (any, error) {
	if err := a.allowed(ctx, r.Channel, Presence); err != nil {
		return nil, err
	}
	found, err := a.hub.Presence(ctx, r.Channel)
	if err == nil && len(found) > presenceMembers {
		err = push.ErrLimitExceeded.WithMessage("the channel has %d clients, more than the %d of one answer: use presence_stats",
			len(found), presenceMembers)
	}
	if err != nil {
		return nil, err
	}
	present := make(map[string]*clientInfo, len(found))
	for id, c := range found {
		present[id] = infoOf(c)
	}
	return struct {
		Presence map[string]*clientInfo `json:"presence"`
	}{present}, nil
}

func (a *Handler) presenceStats(ctx context.Context, r *channelRequest) (any, error) {
	if err := a.allowed(ctx, r.Channel, Presence); err != nil {
		return nil, err
	}
	clients, users, err := a.hub.PresenceStats(ctx, r.Channel)
	if err != nil {
		return nil, err
	}
	return struct {
		NumClients int `json:"num_clients"`
		NumUsers   int `json:"num_users"`
	}{clients, users}, nil
}

type channelsRequest struct {
	Pattern string `json:"pattern"`
}

func (a *Handler) channels(ctx context.Context, r *channelsRequest) (any, error) {
	type count struct {
		NumClients int `json:"num_clients"`
	}
	out := map[string]count{}
	for name, n := range a.hub.Channels(r.Pattern) {
		if mayUse(ctx, name) {
			out[name] = count{n}
		}
	}
	return struct {
		Channels map[string]count `json:"channels"`
	}{out}, nil
}

type node struct {
	UID         string `json:"uid"`
	Name        string `json:"name"`
	Version     string `json:"version"`
	NumClients  int    `json:"num_clients"`
	NumUsers    int    `json:"num_users"`
	NumSubs     int    `json:"num_subs"`
	NumChannels int    `json:"num_channels"`
	Uptime      int64  `json:"uptime"`
}

func (a *Handler) info(ctx context.Context, _ *struct{}) (any, error) {
	found, err := a.hub.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	nodes := make([]node, len(found))
	for i, n := range found {
		nodes[i] = node{n.ID, n.Name, n.Version, n.Clients, n.Users, n.Subs, n.Channels, n.Uptime}
	}
	return struct {
		Nodes []node `json:"nodes"`
	}{nodes}, nil
}

// maxReason is the longest reason of a disconnect in bytes (RFC 6455 §5.5.1), and of an unsubscribe.
const maxReason = 123

type disconnectRequest struct {
	User      string   `json:"user"`
	Client    string   `json:"client"`
	Code      uint16   `json:"code"`
	Reason    string   `json:"reason"`
	Whitelist []string `json:"whitelist"`
	Session   absent   `json:"session"`
	// Disconnect is where Centrifugo has code and reason. Both places are accepted.
	Disconnect *struct {
		Code   uint16 `json:"code"`
		Reason string `json:"reason"`
	} `json:"disconnect"`
}

func (a *Handler) disconnect(ctx context.Context, r *disconnectRequest) (any, error) {
	if err := refuseAbsent(map[string]absent{"session": r.Session}); err != nil {
		return nil, err
	}
	if r.User == "" && r.Client == "" {
		return nil, push.ErrBadRequest.WithMessage("user or client is missing")
	}
	d := push.Disconnect{Code: r.Code, Reason: r.Reason}
	if r.Disconnect != nil {
		d = push.Disconnect{Code: r.Disconnect.Code, Reason: r.Disconnect.Reason}
	}
	switch {
	case d.Code == 0:
		d.Code = push.DisconnectForceNoReconnect.Code
	case d.Code < 3000 || d.Code > 4999:
		return nil, push.ErrBadRequest.WithMessage("code %d is not valid for applications: use 3000 to 4999", d.Code)
	}
	switch {
	case d.Reason == "":
		d.Reason = push.DisconnectForceNoReconnect.Reason
	case len(d.Reason) > maxReason:
		return nil, push.ErrBadRequest.WithMessage("reason has %d bytes, at most %d are allowed", len(d.Reason), maxReason)
	}
	return struct{}{}, a.hub.Disconnect(ctx, hub.Target{User: r.User, Client: r.Client}, d, r.Whitelist)
}

type unsubscribeRequest struct {
	Channel string `json:"channel"`
	User    string `json:"user"`
	Client  string `json:"client"`
	Code    uint32 `json:"code"`
	Reason  string `json:"reason"`
	Session absent `json:"session"`
}

func (a *Handler) unsubscribe(ctx context.Context, r *unsubscribeRequest) (any, error) {
	if err := refuseAbsent(map[string]absent{"session": r.Session}); err != nil {
		return nil, err
	}
	switch {
	case r.Channel == "":
		return nil, push.ErrBadRequest.WithMessage("channel is missing")
	case r.User == "" && r.Client == "":
		return nil, push.ErrBadRequest.WithMessage("user or client is missing")
	case r.Code != 0 && (r.Code < 2000 || r.Code > 2999):
		return nil, push.ErrBadRequest.WithMessage("code %d is not one of an unsubscribe: use 2000 to 2499, or 2500 to 2999 for clients to subscribe again", r.Code)
	case len(r.Reason) > maxReason:
		return nil, push.ErrBadRequest.WithMessage("reason has %d bytes, at most %d are allowed", len(r.Reason), maxReason)
	}
	if err := checkNamespace(ctx, r.Channel); err != nil {
		return nil, err
	}
	u := push.Unsubscribe{Code: cmp.Or(r.Code, push.UnsubscribeServer.Code), Reason: cmp.Or(r.Reason, push.UnsubscribeServer.Reason)}
	return struct{}{}, a.hub.Unsubscribe(ctx, hub.Target{User: r.User, Client: r.Client}, r.Channel, u)
}

type paceRequest struct {
	User      string `json:"user"`
	Client    string `json:"client"`
	Channel   string `json:"channel"`
	Interval  *int64 `json:"interval"`  // milliseconds; 0: as often as the namespace allows
	Bandwidth *int64 `json:"bandwidth"` // bytes a second; 0: as many as the node allows
}

func (a *Handler) pace(ctx context.Context, r *paceRequest) (any, error) {
	switch {
	case r.User == "" && r.Client == "":
		return nil, push.ErrBadRequest.WithMessage("user or client is missing")
	case r.Interval == nil && r.Bandwidth == nil:
		return nil, push.ErrBadRequest.WithMessage("interval (milliseconds) or bandwidth (bytes per second) is missing")
	}
	allowed := checkEverywhere(ctx) // the bandwidth is that of the whole client
	if r.Channel != "" && r.Bandwidth == nil {
		allowed = checkNamespace(ctx, r.Channel)
	}
	if allowed != nil {
		return nil, allowed
	}
	b, err := pace.BoundsOf(r.Interval, r.Bandwidth)
	if err != nil {
		return nil, push.ErrBadRequest.WithMessage("%v", err)
	}
	return struct{}{}, a.hub.Pace(ctx, hub.Target{User: r.User, Client: r.Client}, r.Channel, b)
}
