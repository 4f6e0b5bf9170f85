package cluster

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-push/sluice/internal/rendezvous"
)

// Set is the members of a cluster at one time. It never changes, so all methods may be called concurrently.
type Set struct {
	members  []Member // sorted by ID
	gateways []node   // the members that get routes, sorted by ID
	hubs     []node   // the members that get partitions, sorted by ID
}

// node is a member as choices need it.
type node struct {
	member   *Member
	hash     uint64
	weight   float64
	labels   labelList
	sessions int
	capacity int
	draining bool
}

// isFull is Member.IsFull with the sessions of the node.
func (n *node) isFull() bool { return n.capacity > 0 && n.sessions >= n.capacity }

// NewSet makes a Set of the members of the cluster with a name. Members of other clusters are left out. The order of the list makes no difference, and
// neither does a member that is in the list several times. Members that are not valid are left out. If two different members have the same ID, one
// is chosen, on every node the same. Both are reported in the error, but the Set can always be used.
func NewSet(cluster string, members []Member) (*Set, error) {
	var errs []error
	s := &Set{members: make([]Member, 0, len(members))}
	for i := range members {
		m := &members[i]
		if m.Cluster != cluster {
			continue
		}
		if err := m.Check(); err != nil {
			errs = append(errs, err)
			continue
		}
		kept := *m
		kept.Weight = m.Share()
		kept.Labels = maps.Clone(m.Labels)
		maps.DeleteFunc(kept.Labels, func(_, value string) bool { return value == "" })
		s.members = append(s.members, kept)
	}
	slices.SortFunc(s.members, func(a, b Member) int { return compareMembers(&a, &b) })
	n := 0
	for i := range s.members {
		switch {
		case n == 0 || s.members[n-1].ID != s.members[i].ID:
			s.members[n] = s.members[i]
			n++
		case !s.members[n-1].Equal(&s.members[i]):
			errs = append(errs, fmt.Errorf("%w %q: two different nodes have this id", ErrMember, shortened(s.members[i].ID)))
		}
	}
	s.members = slices.Clip(s.members[:n])
	for i := range s.members {
		m := &s.members[i]
		if m.IsGateway() {
			s.gateways = append(s.gateways, newNode(m))
		}
		if m.IsHub() {
			s.hubs = append(s.hubs, newNode(m))
		}
	}
	return s, errors.Join(errs...)
}

// compareMembers orders members by ID, and those with the same ID in some way that does not depend on the node.
func compareMembers(a, b *Member) int {
	if order := strings.Compare(a.ID, b.ID); order != 0 || a.Equal(b) {
		return order
	}
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return bytes.Compare(x, y)
}

func newNode(m *Member) node {
	return node{
		member: m, hash: rendezvous.Hash(m.ID), weight: float64(m.Share()), labels: compileLabels(m.Labels),
		sessions: m.Sessions, capacity: m.Capacity, draining: m.Draining,
	}
}

// Members returns the members, sorted by ID. The caller must not change them.
func (s *Set) Members() []Member { return s.members[:len(s.members):len(s.members)] }

// Member returns the member with an ID, nil if there is none. The caller must not change it.
func (s *Set) Member(id string) *Member {
	i, ok := slices.BinarySearchFunc(s.members, id, func(m Member, id string) int { return strings.Compare(m.ID, id) })
	if !ok {
		return nil
	}
	return &s.members[i]
}

// Equal reports whether two sets have equal members.
func (s *Set) Equal(other *Set) bool {
	return slices.EqualFunc(s.members, other.members, func(a, b Member) bool { return a.Equal(&b) })
}

// SamePlaces reports whether two sets differ at most in loads and versions: numbers of sessions, and whether a gateway is full. While they do not,
// placement is the same, and no session has to be moved at once by [Rebind].
func (s *Set) SamePlaces(other *Set) bool {
	return slices.EqualFunc(s.members, other.members, func(a, b Member) bool {
		a.Sessions, a.Capacity, a.Version = b.Sessions, b.Capacity, b.Version
		return a.Equal(&b)
	})
}

// WithSessions returns the set with other numbers of sessions, by ID. Members that are not in the map keep theirs, and negative numbers count as 0. A
// node that answers many clients between two announcements adds the clients that it has sent to each gateway. Otherwise all could get the same one.
func (s *Set) WithSessions(sessions map[string]int) *Set {
	out := &Set{members: slices.Clone(s.members), gateways: slices.Clone(s.gateways), hubs: slices.Clone(s.hubs)}
	for i := range out.members {
		if n, ok := sessions[out.members[i].ID]; ok {
			out.members[i].Sessions = min(max(n, 0), MaxSessions)
		}
	}
	for _, nodes := range [][]node{out.gateways, out.hubs} {
		for i := range nodes {
			nodes[i].member = out.Member(nodes[i].member.ID)
			nodes[i].sessions = nodes[i].member.Sessions
		}
	}
	return out
}
