package cluster

import (
	"fmt"
	"net/url"

	"github.com/sluice-push/sluice/discovery"
)

// endpointLabel is the label of an endpoint that holds the JSON form of a member.
const endpointLabel = "sluice.member"

// Endpoint returns a member as an endpoint, in which registries keep it. The address of the endpoint is the link address, or the host and port of the
// public URL if there is none. The errors wrap [ErrMember]; one is that the member has no address.
func (m *Member) Endpoint() (discovery.Endpoint, error) {
	text, err := Encode(m)
	if err != nil {
		return discovery.Endpoint{}, err
	}
	e := discovery.Endpoint{
		Address: m.Link, Weight: m.Weight, Zone: m.Labels[ZoneLabel], Labels: map[string]string{endpointLabel: string(text)},
	}
	if e.Address == "" {
		e.Address = hostPort(m.Public)
	}
	if err := e.Check(); err != nil {
		return discovery.Endpoint{}, fmt.Errorf("%w %q: neither a public URL nor a link address by which a registry can keep it", ErrMember, shortened(m.ID))
	}
	return e, nil
}

// hostPort returns where the server of a URL listens.
func hostPort(text string) string {
	u, err := url.Parse(text)
	switch {
	case err != nil, u.Host == "":
		return ""
	case u.Port() != "":
		return u.Host
	case u.Scheme == "http", u.Scheme == "ws":
		return u.Host + ":80"
	}
	return u.Host + ":443"
}

// MemberOf returns the member that an endpoint holds. An endpoint without a member is one of a list or of DNS, in which gateways find their hubs: a
// hub of the cluster with this name, whose ID is its address, and which knows no more of itself than the endpoint says. The errors wrap [ErrMember].
func MemberOf(e *discovery.Endpoint, cluster string) (Member, error) {
	if text, ok := e.Labels[endpointLabel]; ok {
		return Decode([]byte(text))
	}
	m := Member{ID: e.Address, Cluster: cluster, Role: Hub, Link: e.Address, Weight: e.Weight, Labels: make(map[string]string, len(e.Labels)+1)}
	for name, value := range e.Labels {
		m.Labels[name] = value
	}
	if e.Zone != "" {
		m.Labels[ZoneLabel] = e.Zone
	}
	if err := m.Check(); err != nil {
		return Member{}, err
	}
	return m, nil
}
