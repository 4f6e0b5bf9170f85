package loadtest

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/sluice-push/sluice/cmd/sluice/internal/clientconn"
	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest/delivery"
)

// withDefaults returns a copy of the spec in which each zero field that has a default holds that default.
func (s Spec) withDefaults() Spec {
	text := func(v *string, otherwise string) {
		if *v == "" {
			*v = otherwise
		}
	}
	text(&s.URL, "http://127.0.0.1:8000")
	text(&s.Transport, WebSocket)
	if forms := clientconn.ProtocolsOf(s.Transport); len(forms) > 0 {
		text(&s.Protocol, forms[0])
	}
	text(&s.Publish, ByAPI)
	text(&s.Prefix, "ticks:load-")
	text((*string)(&s.Shape), string(One))
	setDefault(&s.Clients, 1000)
	if s.Shape == Storm {
		setDefault(&s.Channels, 1)
		setDefault(&s.Each, 1)
	}
	setDefault(&s.Channels, 2000)
	setDefault(&s.Each, 20)
	setDefault(&s.Rate, 1)
	setDefault(&s.Window, 1)
	setDefault(&s.Bytes, 256)
	setDefault(&s.Seed, 1)
	if s.Shape == Slow {
		setDefault(&s.Stalled, 0.1)
	}
	setDefault(&s.StallBuffer, 16<<10)
	setDefault(&s.Connect, 64)
	setDefault(&s.Rejoin, s.Connect)
	setDefault(&s.RetryMin, 20*time.Millisecond)
	setDefault(&s.RetryMax, max(time.Second, s.RetryMin))
	setDefault(&s.Settle, 2*time.Second)
	setDefault(&s.Warmup, 2*time.Second)
	setDefault(&s.Duration, 10*time.Second)
	setDefault(&s.Patience, 10*time.Second)
	if u, err := url.Parse(s.URL); err == nil && u.Host != "" {
		s.URL, s.PublishURL = s.addresses(u)
	}
	s.Nodes = slices.Clone(s.Nodes)
	for i, node := range s.Nodes {
		if u, err := url.Parse(node); err == nil && u.Host != "" {
			s.Nodes[i], _ = s.addresses(u)
		}
	}
	return s
}

// tokensOf returns the tokens of clients from to to-1: one for all of them, one for each, or none.
func (s *Spec) tokensOf(from, to int) []string {
	switch {
	case len(s.Tokens) > 0:
		return s.Tokens[from:to]
	case s.Token != "":
		return []string{s.Token}
	}
	return nil
}

// address returns the URL that connection n dials. The connections take turns over URL and Nodes.
func (s *Spec) address(n int) string {
	if n %= len(s.Nodes) + 1; n > 0 {
		return s.Nodes[n-1]
	}
	return s.URL
}

func setDefault[T int | uint64 | float64 | time.Duration](v *T, otherwise T) {
	if *v == 0 {
		*v = otherwise
	}
}

// The HTTP paths of a Sluice node.
const (
	clientPath  = "/connection/websocket"
	publishPath = "/api/publish"
)

// addresses derives the URL that clients dial, and the one that publications are posted to unless PublishURL is set, from a server's URL.
func (s *Spec) addresses(u *url.URL) (client, publish string) {
	client = u.String()
	if s.Transport == WebSocket {
		client = webSocketURL(u, s.Protocol == Plain)
	}
	if s.PublishURL != "" || s.Publish != ByAPI {
		return client, s.PublishURL
	}
	api := url.URL{Scheme: "http", Host: u.Host, Path: publishPath}
	if u.Scheme == "https" || u.Scheme == "wss" {
		api.Scheme = "https"
	}
	return client, api.String()
}

// webSocketURL returns the URL for WebSocket of a server's URL.
func webSocketURL(u *url.URL, plain bool) string {
	ws := *u
	switch u.Scheme {
	case "http":
		ws.Scheme = "ws"
	case "https":
		ws.Scheme = "wss"
	}
	if !plain && (ws.Path == "" || ws.Path == "/") {
		ws.Path = clientPath
	}
	return ws.String()
}

// publisherURL returns the URL that a publishing client dials. A publishing client uses WebSocket, whatever the transport of the subscribers.
func (s *Spec) publisherURL() string {
	if s.Transport == WebSocket {
		return s.URL
	}
	u, err := url.Parse(s.URL)
	if err != nil {
		return s.URL
	}
	u.Path = strings.TrimRight(u.Path, "/") + clientPath
	return webSocketURL(u, false)
}

// Validate returns an error for the first setting of the spec that is invalid, and nil if there is none. The error says how to correct
// the setting. Validate connects to nothing. A zero field counts as its default.
func (s Spec) Validate() error {
	s = s.withDefaults()
	if err := s.checkTransport(); err != nil {
		return err
	}
	if err := s.checkAddresses(); err != nil {
		return err
	}
	var errs []error
	refuse := func(is bool, format string, args ...any) {
		if is {
			errs = append(errs, fmt.Errorf("loadtest: "+format, args...))
		}
	}
	refuse(s.Publish != ByAPI && s.Publish != ByClient, "unknown publish method %q: use %s or %s", s.Publish, ByAPI, ByClient)
	switch s.Shape {
	case One, Slow, Idle:
	case Market, Storm:
		refuse(s.Protocol == Plain && s.hasChannels(), "protocol plain has no channels: use another shape than market, and a storm of one channel")
		refuse(s.Channels < 1, "%d channels: use 1 or more", s.Channels)
		refuse(s.Each < 1 || s.Each > s.Channels, "%d subscriptions per client to %d channels: use 1 to the number of channels", s.Each, s.Channels)
		refuse(s.Zipf != 0 && !(s.Zipf > 1 && s.Zipf <= 10), "zipf %v: use an exponent above 1 and up to 10, or 0 for equal rates",
			s.Zipf)
	default:
		refuse(true, "unknown shape %q: use one, market, slow, storm or idle", s.Shape)
	}
	refuse(s.Clients < 1 || s.Clients > 10_000_000, "%d clients: use 1 to 10,000,000", s.Clients)
	refuse(s.Rate > 1_000_000, "%v publications per second: use at most 1,000,000", s.Rate)
	refuse(s.Window < 1 || s.Window > 128, "window %d: use 1 to 128", s.Window)
	refuse(s.Bytes < delivery.MinBytes || s.Bytes > 16<<20, "%d bytes: use %d to 16 Mi", s.Bytes, delivery.MinBytes)
	refuse(!(s.Stalled >= 0 && s.Stalled < 1), "stalled %v: use a fraction of at least 0 and below 1", s.Stalled)
	refuse(s.StallBuffer < 0, "stall buffer %d: use 0 or more bytes", s.StallBuffer)
	refuse(s.Connect < 1 || s.Rejoin < 1, "%d concurrent connects, %d after a storm: use 1 or more", s.Connect, s.Rejoin)
	refuse(s.RetryMin < 0 || s.RetryMax < s.RetryMin, "pauses of %v to %v: use at least 0 and the shortest first", s.RetryMin, s.RetryMax)
	refuse(len(s.Tokens) > 0 && (s.Token != "" || len(s.Tokens) < s.Clients), "%d tokens for %d clients: use one for each, or one for all of them",
		len(s.Tokens), s.Clients)
	refuse(s.Settle < 0 || s.Warmup < 0 || s.Patience < 0, "negative time: use 0 or more for settle, warmup and patience")
	refuse(s.Duration <= 0, "duration %v: use more than 0", s.Duration)
	refuse(s.StallFor < 0 || s.StallFor > s.Duration, "stall for %v: use 0 to the duration of %v", s.StallFor, s.Duration)
	refuse(s.Processes < 0 || s.Processes > s.Clients, "%d processes for %d clients: use 1 to the number of clients, or 0 for as many as needed",
		s.Processes, s.Clients)
	if len(errs) > 0 {
		return errs[0]
	}
	if err := s.checkNetwork(); err != nil {
		return err
	}
	return s.checkSize()
}

// checkTransport returns an error if the transport or the protocol is unknown, or if they do not go together.
func (s *Spec) checkTransport() error {
	switch known := append(clientconn.Protocols(), Plain); {
	case !slices.Contains(known, s.Protocol) && s.Protocol != "":
		return fmt.Errorf("loadtest: unknown protocol %q: use %s", s.Protocol, strings.Join(known, ", "))
	case s.Protocol == Plain && s.Transport == WebSocket:
		return nil
	case s.Protocol == Plain && clientconn.ProtocolsOf(s.Transport) != nil:
		return fmt.Errorf("loadtest: transport %s does not carry the protocol %q: use websocket", s.Transport, Plain)
	}
	if err := (&clientconn.Options{Transport: s.Transport, Protocol: s.Protocol}).Validate(); err != nil {
		return fmt.Errorf("loadtest: %w", err)
	}
	return nil
}

// checkAddresses returns an error if a URL of the spec is invalid. The error shows no secrets of the URL.
func (s *Spec) checkAddresses() error {
	for i, shown := range append([]string{s.redacted().URL}, s.redacted().Nodes...) {
		u, err := url.Parse(s.address(i))
		if err == nil && s.Transport != WebSocket {
			if err := (&clientconn.Options{URL: shown, Transport: s.Transport, Protocol: s.Protocol}).Validate(); err != nil {
				return fmt.Errorf("loadtest: transport %s: %w", s.Transport, err)
			}
			continue
		}
		switch {
		case err != nil:
			return errors.New("loadtest: the server URL is malformed: write ws://HOST:PORT/PATH")
		case u.Scheme != "ws" && u.Scheme != "wss" || u.Host == "":
			return fmt.Errorf("loadtest: %q is not a server URL: write ws://HOST:PORT/PATH, or wss, http or https", shown)
		}
	}
	if s.Publish != ByAPI || s.Shape == Idle {
		return nil
	}
	u, err := url.Parse(s.PublishURL)
	switch {
	case err != nil:
		return errors.New("loadtest: the publish URL is malformed: write http://HOST:PORT/api/publish")
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return fmt.Errorf("loadtest: %q is not a publish URL: write http://HOST:PORT/api/publish, or https", s.redacted().PublishURL)
	}
	return nil
}

// checkSize returns an error if the stream or sequence numbers of the run would not fit into a payload, or if the channel prefix is invalid.
func (s *Spec) checkSize() error {
	p := newPlan(*s)
	switch total := (s.Warmup + s.Duration).Seconds() * s.Rate; {
	case p.streams() > delivery.MaxStreams:
		return fmt.Errorf("loadtest: %d channels with %d publications in flight exceed %d: use fewer", p.channels, p.streamsPerChannel, delivery.MaxStreams)
	case total >= 1<<31:
		return fmt.Errorf("loadtest: %.0f publications in a run are too many: use a lower rate or a shorter duration", total)
	case strings.ContainsAny(s.Prefix, "\"\\\n\r\t"):
		return fmt.Errorf("loadtest: prefix %q has invalid characters: use letters, digits, ':', '-' and '_'", s.Prefix)
	}
	return nil
}

// redacted returns a copy of the spec whose URLs have no user, query or fragment, because these may be secret.
func (s Spec) redacted() Spec {
	s.Nodes = slices.Clone(s.Nodes)
	addresses := []*string{&s.URL, &s.PublishURL}
	for i := range s.Nodes {
		addresses = append(addresses, &s.Nodes[i])
	}
	for _, at := range addresses {
		if u, err := url.Parse(*at); err == nil && *at != "" {
			u.User, u.RawQuery, u.Fragment = nil, "", ""
			*at = u.String()
		}
	}
	return s
}
