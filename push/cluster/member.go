package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sluice-push/sluice/discovery"
)

// Role says what a node does.
type Role uint8

// The roles.
const (
	All     Role = iota // hub and gateway in one process
	Hub                 // reads partitions from the broker, for gateways
	Gateway             // serves clients, with channels that it gets from hubs
)

var roleNames = [...]string{All: "all", Hub: "hub", Gateway: "gateway"}

// String returns the name used in configuration: all, hub or gateway.
func (r Role) String() string { return nameOf(roleNames[:], r, "role") }

// UnmarshalText accepts all, hub and gateway.
func (r *Role) UnmarshalText(text []byte) error { return parse(r, roleNames[:], text, "role") }

// MarshalText returns the role's name.
func (r Role) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// nameOf returns the name of a value, for an unknown one its kind and number.
func nameOf[T ~uint8](names []string, v T, kind string) string {
	if int(v) < len(names) {
		return names[v]
	}
	return fmt.Sprintf("%s(%d)", kind, uint8(v))
}

// parse sets a value by its name.
func parse[T ~uint8](v *T, names []string, text []byte, kind string) error {
	for i, name := range names {
		if string(text) == name {
			*v = T(i) //nolint:gosec // there are few names
			return nil
		}
	}
	last := len(names) - 1
	return fmt.Errorf("unknown %s %q: use %s or %s", kind, shortened(string(text)), strings.Join(names[:last], ", "), names[last])
}

// Limits of a member.
const (
	DefaultWeight = 100
	MaxWeight     = 1_000_000
	// MaxSessions is the largest number of sessions, and the largest capacity.
	MaxSessions = 1_000_000_000
	// MaxLabels is how many labels a member or a rule may have.
	MaxLabels = 32
	// MaxTextLen is the longest ID, version, cluster name, label name and label value, in bytes.
	MaxTextLen = 255
	// MaxURLLen is the longest address, in bytes.
	MaxURLLen = 2048
	// MaxMemberBytes is how long the JSON form of a member may be.
	MaxMemberBytes = 32 << 10
)

// ErrMember means that a member is not valid. The error that wraps it names the field.
var ErrMember = errors.New("cluster: bad member")

// Member is a node as it announces itself to the others. The JSON form travels in leases and registries.
type Member struct {
	// ID identifies the node. Hashes are made from it: a node that keeps its ID over a restart gets the same clients and partitions again.
	ID string `json:"id"`
	// Cluster is the name of the node's cluster. Nodes of other clusters are not in a [Set].
	Cluster string `json:"cluster,omitempty"`
	// Role says what the node does.
	Role Role `json:"role"`
	// Public is the URL at which clients reach the node: http, https, ws or wss, host, and perhaps a path. A node without it gets no routes.
	Public string `json:"public,omitempty"`
	// Link is the address, HOST:PORT or unix:PATH, at which gateways reach the node. A node without it gets no partitions.
	Link string `json:"link,omitempty"`
	// Labels are what rules choose the node by, such as zone or tier. A label with an empty value counts as absent.
	Labels map[string]string `json:"labels,omitempty"`
	// Weight is the node's share of clients and partitions, beside the weights of the others: 1 to [MaxWeight]. 0 is [DefaultWeight].
	Weight int `json:"weight,omitempty"`
	// Sessions is how many clients are connected.
	Sessions int `json:"sessions,omitempty"`
	// Capacity is how many clients may be connected at most; 0: not known.
	Capacity int `json:"capacity,omitempty"`
	// Version is the release that the node runs.
	Version string `json:"version,omitempty"`
	// Draining means that the node takes no new clients and partitions: it starts, is about to end, or cannot reach its broker.
	Draining bool `json:"draining,omitempty"`
}

// Share returns the weight, or that which 0 stands for.
func (m *Member) Share() int { return cmp.Or(m.Weight, DefaultWeight) }

// IsHub reports whether partitions can be placed on the node.
func (m *Member) IsHub() bool { return m.Role != Gateway && m.Link != "" }

// IsGateway reports whether clients can be routed to the node.
func (m *Member) IsGateway() bool { return m.Role != Hub && m.Public != "" }

// IsFull reports whether the node has as many sessions as it may have.
func (m *Member) IsFull() bool { return m.Capacity > 0 && m.Sessions >= m.Capacity }

// Equal reports whether two members are the same in every field. A weight of 0 is equal to the default.
func (m *Member) Equal(other *Member) bool {
	a, b := *m, *other
	return maps.Equal(a.Labels, b.Labels) && a.Share() == b.Share() && a.ID == b.ID && a.Cluster == b.Cluster && a.Role == b.Role &&
		a.Public == b.Public && a.Link == b.Link && a.Sessions == b.Sessions && a.Capacity == b.Capacity && a.Version == b.Version &&
		a.Draining == b.Draining
}

// Check returns an error, which wraps [ErrMember], if a field has a value that it cannot have.
func (m *Member) Check() error {
	if err := m.check(); err != nil {
		return fmt.Errorf("%w %q: %w", ErrMember, shortened(m.ID), err)
	}
	return nil
}

func (m *Member) check() error {
	if m.ID == "" {
		return errors.New("id is missing")
	}
	for _, field := range []struct{ name, text string }{{"id", m.ID}, {"cluster", m.Cluster}, {"version", m.Version}} {
		if err := checkText(field.name, field.text); err != nil {
			return err
		}
	}
	switch {
	case int(m.Role) >= len(roleNames):
		return fmt.Errorf("role: unknown %v", m.Role)
	case m.Weight < 0 || m.Weight > MaxWeight:
		return fmt.Errorf("weight: %d is not between 1 and %d, or 0 for %d", m.Weight, MaxWeight, DefaultWeight)
	case m.Sessions < 0 || m.Sessions > MaxSessions:
		return fmt.Errorf("sessions: %d is not between 0 and %d", m.Sessions, MaxSessions)
	case m.Capacity < 0 || m.Capacity > MaxSessions:
		return fmt.Errorf("capacity: %d is not between 0 and %d", m.Capacity, MaxSessions)
	}
	if err := checkPublic(m.Public); err != nil {
		return fmt.Errorf("public: %w", err)
	}
	if err := checkLink(m.Link); err != nil {
		return fmt.Errorf("link: %w", err)
	}
	return checkLabels(m.Labels)
}

// checkPublic returns an error unless clients could connect to a URL. The empty one is allowed.
func checkPublic(text string) error {
	if text == "" {
		return nil
	}
	if len(text) > MaxURLLen {
		return fmt.Errorf("%d bytes are longer than %d", len(text), MaxURLLen)
	}
	u, err := url.Parse(text)
	if err != nil {
		return fmt.Errorf("%q is not a URL", shortened(text)) // the error has the whole text
	}
	switch u.Scheme {
	case "http", "https", "ws", "wss":
	default:
		return fmt.Errorf("%q does not begin with http://, https://, ws:// or wss://", shortened(text))
	}
	switch {
	case u.Hostname() == "":
		return fmt.Errorf("%q has no host", shortened(text))
	case u.User != nil, u.RawQuery != "", u.ForceQuery, u.Fragment != "", strings.HasSuffix(text, "#"):
		return fmt.Errorf("%q has more than a host, a port and a path", shortened(text))
	}
	return nil
}

// checkLink returns an error unless gateways could connect to an address. The empty one is allowed.
func checkLink(address string) error {
	switch {
	case address == "":
		return nil
	case len(address) > MaxURLLen:
		return fmt.Errorf("%d bytes are longer than %d", len(address), MaxURLLen)
	}
	if err := (&discovery.Endpoint{Address: address}).Check(); err != nil {
		return fmt.Errorf("%q is neither HOST:PORT, with a port between 1 and 65535, nor unix:PATH", shortened(address))
	}
	return checkCharacters("link", address)
}

// checkText returns an error unless a text may be an ID, a version or the like.
func checkText(name, text string) error {
	if len(text) > MaxTextLen {
		return fmt.Errorf("%s: %d bytes are longer than %d", name, len(text), MaxTextLen)
	}
	return checkCharacters(name, text)
}

// checkCharacters returns an error if a text could not be printed, or not be sent as JSON.
func checkCharacters(name, text string) error {
	switch {
	case !utf8.ValidString(text):
		return fmt.Errorf("%s: %q is not UTF-8", name, shortened(text))
	case strings.ContainsFunc(text, unicode.IsControl):
		return fmt.Errorf("%s: %q has a control character", name, shortened(text))
	}
	return nil
}

// shortened returns a text for an error: the first bytes of a long one.
func shortened(text string) string {
	const most = 60
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
