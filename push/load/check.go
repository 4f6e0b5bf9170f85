package load

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

// withDefaults returns the spec with a value in each field that has a default.
func (s Spec) withDefaults() Spec {
	text := func(v *string, otherwise string) {
		if *v == "" {
			*v = otherwise
		}
	}
	text(&s.URL, "ws://127.0.0.1:8000")
	text(&s.Protocol, Centrifuge)
	text(&s.Publish, ByAPI)
	text(&s.Prefix, "ticks:load-")
	text((*string)(&s.Shape), string(One))
	number(&s.Clients, 1000)
	number(&s.Channels, 2000)
	number(&s.Each, 20)
	number(&s.Rate, 1)
	number(&s.Window, 1)
	number(&s.Bytes, 256)
	number(&s.Seed, 1)
	if s.Shape == Slow {
		number(&s.Stalled, 0.1)
	}
	number(&s.StallBuffer, 16<<10)
	number(&s.Connect, 64)
	number(&s.Settle, 2*time.Second)
	number(&s.Warmup, 2*time.Second)
	number(&s.Duration, 10*time.Second)
	number(&s.Patience, 10*time.Second)
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

// address returns where connection n goes to.
func (s *Spec) address(n int) string {
	if n %= len(s.Nodes) + 1; n > 0 {
		return s.Nodes[n-1]
	}
	return s.URL
}

func number[T int | uint64 | float64 | time.Duration](v *T, otherwise T) {
	if *v == 0 {
		*v = otherwise
	}
}

// Paths of a node of this platform.
const (
	clientPath  = "/connection/websocket"
	publishPath = "/api/publish"
)

// addresses returns where clients connect, and where publications go to.
func (s *Spec) addresses(u *url.URL) (client, publish string) {
	ws, api := *u, url.URL{Scheme: "http", Host: u.Host, Path: publishPath}
	switch u.Scheme {
	case "http":
		ws.Scheme = "ws"
	case "https":
		ws.Scheme = "wss"
	}
	if ws.Scheme == "wss" {
		api.Scheme = "https"
	}
	if s.Protocol == Centrifuge && (ws.Path == "" || ws.Path == "/") {
		ws.Path = clientPath
	}
	if s.PublishURL != "" || s.Publish != ByAPI {
		return ws.String(), s.PublishURL
	}
	return ws.String(), api.String()
}

// Validate says what is wrong with a spec, as far as that is known without trying: the first thing that is, and what to do about it.
// Fields that are zero have their defaults.
func (s Spec) Validate() error {
	s = s.withDefaults()
	if err := s.checkAddresses(); err != nil {
		return err
	}
	var errs []error
	refuse := func(is bool, format string, args ...any) {
		if is {
			errs = append(errs, fmt.Errorf("load: "+format, args...))
		}
	}
	refuse(s.Protocol != Centrifuge && s.Protocol != Plain, "unknown protocol %q: use %s or %s", s.Protocol, Centrifuge, Plain)
	refuse(s.Publish != ByAPI && s.Publish != ByClient, "unknown way to publish %q: use %s or %s", s.Publish, ByAPI, ByClient)
	switch s.Shape {
	case One, Slow, Storm, Idle:
	case Market:
		refuse(s.Protocol == Plain, "protocol plain has no channels to choose from: use another shape than market")
		refuse(s.Channels < 1, "%d channels: there has to be one", s.Channels)
		refuse(s.Each < 1 || s.Each > s.Channels, "each client wants %d of %d channels: it has to be 1 to all", s.Each, s.Channels)
		refuse(s.Zipf != 0 && !(s.Zipf > 1 && s.Zipf <= 10), "zipf %v: it has to be above 1 and at most 10, or 0 for channels that are all alike",
			s.Zipf)
	default:
		refuse(true, "unknown shape %q: use one, market, slow, storm or idle", s.Shape)
	}
	refuse(s.Clients < 1 || s.Clients > 10_000_000, "%d clients: it has to be 1 to 10,000,000", s.Clients)
	refuse(s.Rate > 1_000_000, "%v publications a second: at most 1,000,000 can be asked for", s.Rate)
	refuse(s.Window < 1 || s.Window > 128, "window %d: it has to be 1 to 128", s.Window)
	refuse(s.Bytes < MinBytes || s.Bytes > 16<<20, "%d bytes: it has to be %d to 16 Mi", s.Bytes, MinBytes)
	refuse(!(s.Stalled >= 0 && s.Stalled < 1), "stalled %v: it is a share of the clients, at least 0 and below 1", s.Stalled)
	refuse(s.StallBuffer < 0, "stall buffer of %d bytes: it cannot be negative", s.StallBuffer)
	refuse(s.Connect < 1, "%d connections at a time: it has to be 1 or more", s.Connect)
	refuse(s.Settle < 0 || s.Warmup < 0 || s.Patience < 0, "times cannot be negative")
	refuse(s.Duration <= 0, "duration %v: it has to be above 0", s.Duration)
	refuse(s.StallFor < 0 || s.StallFor > s.Duration, "stall for %v: it has to be a part of the %v that are measured", s.StallFor, s.Duration)
	refuse(s.Processes < 0 || s.Processes > s.Clients, "%d processes for %d clients: it has to be 1 to as many as clients, or 0 for as many as needed",
		s.Processes, s.Clients)
	if len(errs) > 0 {
		return errs[0]
	}
	if err := s.checkNetwork(); err != nil {
		return err
	}
	return s.checkSize()
}

func (s *Spec) checkAddresses() error {
	for i, shown := range append([]string{s.public().URL}, s.public().Nodes...) {
		u, err := url.Parse(s.address(i))
		switch {
		case err != nil:
			return errors.New("load: the URL of the server cannot be read: write ws://HOST:PORT/PATH")
		case u.Scheme != "ws" && u.Scheme != "wss" || u.Host == "":
			return fmt.Errorf("load: %q is no URL to connect to: write ws://HOST:PORT/PATH, or wss, http or https", shown)
		}
	}
	if s.Publish != ByAPI || s.Shape == Idle {
		return nil
	}
	u, err := url.Parse(s.PublishURL)
	switch {
	case err != nil:
		return errors.New("load: the URL to publish to cannot be read: write http://HOST:PORT/api/publish")
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return fmt.Errorf("load: %q is no URL to publish to: write http://HOST:PORT/api/publish, or https", s.public().PublishURL)
	}
	return nil
}

// checkSize refuses what would not fit the numbers in payloads, or memory.
func (s *Spec) checkSize() error {
	p := newPlan(*s)
	switch total := (s.Warmup + s.Duration).Seconds() * s.Rate; {
	case p.streams() > maxStreams:
		return fmt.Errorf("load: %d channels with %d publications under way are more than %d: use fewer", p.channels, p.lanes, maxStreams)
	case total >= 1<<31:
		return fmt.Errorf("load: %.0f publications in a run are more than can be counted: use a lower rate or a shorter time", total)
	case strings.ContainsAny(s.Prefix, "\"\\\n\r\t"):
		return fmt.Errorf("load: prefix %q has characters that channels of a load cannot have: use letters, digits, ':', '-' and '_'", s.Prefix)
	}
	return nil
}

// public returns the spec without what may be secret in its URLs: users, and what follows the path.
func (s Spec) public() Spec {
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
