package clusternode

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"

	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/cluster"
	"github.com/sluice-push/sluice/push/config"
	"github.com/sluice-push/sluice/push/gateway"
)

// Path is where the internal address of a node says what the node knows of its cluster: GET only.
const Path = "/cluster"

// View is what a node knows of its cluster, in the form in which programs get it.
type View struct {
	// Node is the ID of the node that knows this.
	Node string `json:"node"`
	// Cluster is the name of the cluster; empty: the node is in none, and the only member.
	Cluster string `json:"cluster"`
	// Zone is the zone of the node, by the label that placement compares.
	Zone string `json:"zone"`
	// Members are the nodes of the cluster, sorted by ID. All have a weight.
	Members []cluster.Member `json:"members"`
	// Namespaces are those of the node's configuration, in its order.
	Namespaces []Namespace `json:"namespaces"`
}

// Namespace says which hubs have the partitions of a namespace, as a node places them.
type Namespace struct {
	Name string `json:"name"`
	// Hubs has the ID of the hub of each partition, by its number; empty if there is a problem.
	Hubs []string `json:"hubs"`
	// Problem says why the namespace has no hubs; empty if it has.
	Problem string `json:"problem,omitempty"`
}

// mostViewBytes is how long the JSON form of a View may be.
const mostViewBytes = 64 << 20

// ReadView reads the JSON form of a View. Members that are not valid are an error.
func ReadView(in io.Reader) (*View, error) {
	text, err := io.ReadAll(io.LimitReader(in, mostViewBytes+1))
	if err != nil {
		return nil, err
	}
	if len(text) > mostViewBytes {
		return nil, fmt.Errorf("more than %d bytes", mostViewBytes)
	}
	type plain View // without the field below
	var raw struct {
		plain
		Members []json.RawMessage `json:"members"`
	}
	if err := json.Unmarshal(text, &raw); err != nil {
		return nil, fmt.Errorf("not JSON as sluice info --json prints it: %w", err)
	}
	v := View(raw.plain)
	if v.Node == "" || len(raw.Members) == 0 {
		return nil, errors.New("not JSON as sluice info --json prints it: there are no node and members")
	}
	for _, one := range raw.Members {
		m, err := cluster.Decode(one)
		if err != nil {
			return nil, err
		}
		v.Members = append(v.Members, m)
	}
	return &v, nil
}

// View returns what the node knows of its cluster. It may be called concurrently, after Join.
func (n *Node) View() (*View, error) {
	set := n.directory.Set()
	v := &View{Node: n.self.ID, Cluster: n.self.Cluster, Zone: n.places.zone, Members: set.Members()}
	for i := range n.config.Namespaces {
		ns := &n.config.Namespaces[i]
		v.Namespaces = append(v.Namespaces, namespaceOn(ns, func(p broker.Partition) (string, error) {
			hub, err := n.places.placer.Place(set, p, n.places.zone)
			if err != nil {
				return "", err
			}
			return hub.ID, nil
		}))
	}
	return v, nil
}

// namespaceOn returns the hubs of a namespace.
func namespaceOn(ns *config.Namespace, hubOf func(broker.Partition) (string, error)) Namespace {
	out := Namespace{Name: ns.Name, Hubs: make([]string, 0, ns.Partitions)}
	for i := range ns.Partitions {
		hub, err := hubOf(broker.Partition{Namespace: ns.Name, Index: i})
		if err != nil { // then no partition of the namespace has a hub
			return Namespace{Name: ns.Name, Hubs: []string{}, Problem: err.Error()}
		}
		out.Hubs = append(out.Hubs, hub)
	}
	return out
}

// Alone returns what the View of a node in no cluster is: the node is the only member, and has all partitions. load sets the number of sessions, and
// whether the node is draining.
func Alone(cfg *config.Config, o Options, load func(*cluster.Member)) func() (*View, error) {
	return func() (*View, error) {
		self, err := describe(cfg, &o)
		if err != nil {
			return nil, err
		}
		load(&self)
		v := &View{Node: self.ID, Zone: self.Labels[cfg.Cluster.Placement.ZoneLabel], Members: []cluster.Member{self}}
		for i := range cfg.Namespaces {
			v.Namespaces = append(v.Namespaces, namespaceOn(&cfg.Namespaces[i], func(broker.Partition) (string, error) { return self.ID, nil }))
		}
		return v, nil
	}
}

// Handler answers requests with the View of a node. All methods may be called concurrently. The zero value can be used: until Show is called, it answers
// that the node waits for its broker.
type Handler struct {
	view atomic.Pointer[func() (*View, error)]
}

// Show has the handler answer with a view from now on.
func (h *Handler) Show(view func() (*View, error)) { h.view.Store(&view) }

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	current := h.view.Load()
	if current == nil {
		w.Header().Set("Retry-After", gateway.RetryAfter(gateway.MinRetry))
		http.Error(w, "the node is not part of its cluster yet: it waits for its broker", http.StatusServiceUnavailable)
		return
	}
	view, err := (*current)()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_ = json.NewEncoder(w).Encode(view) // an error means that the client has left
}
