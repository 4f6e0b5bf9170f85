package metrics

import (
	"maps"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-push/sluice/push/api"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/cluster"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/hub"
)

// sink receives the metrics of one scrape.
type sink chan<- prometheus.Metric

// number sends one value of a counter or gauge.
func (to sink) number(f family, value float64, labels ...string) {
	one, err := prometheus.NewConstMetric(f.desc, f.kind, value, labels...)
	if err != nil { // the name of the namespace is not UTF-8
		one = prometheus.NewInvalidMetric(f.desc, err)
	}
	to <- one
}

// times sends a histogram.
func (to sink) times(f family, h *histogram, labels ...string) {
	to <- &metric{f.desc, labelPairs(f.labels, labels), h}
}

func (m *Metrics) collectHub(to sink, s hub.Stats) {
	fs := m.families
	for i := range s.Namespaces {
		n := &s.Namespaces[i]
		for _, one := range [...]struct {
			family family
			value  uint64
			label  string // besides the namespace
		}{
			{fs.received, n.Received, ""},
			{fs.published, n.Published, ""},
			{fs.publishErrors, n.Busy, "busy"},
			{fs.publishErrors, n.TooLarge, "too_large"},
			{fs.publishErrors, n.Failed, "failed"},
			{fs.delivered, n.Delivered, ""},
			{fs.conflated, n.Conflated, ""},
			{fs.lost, n.Lost, ""},
			{fs.lostUnknown, n.LostUnknown, ""},
			{fs.subscribes, n.New, "new"},
			{fs.subscribes, n.Recovered, "recovered"},
			{fs.subscribes, n.FreshEpoch, "fresh_epoch"},
			{fs.subscribes, n.FreshFloor, "fresh_floor"},
			{fs.subscribes, n.FreshAhead, "fresh_ahead"},
			{fs.ended, n.EndedServer, "server"},
			{fs.ended, n.EndedBehind, "behind"},
			{fs.ended, n.EndedReset, "reset"},
		} {
			labels := []string{n.Name, one.label}
			to.number(one.family, float64(one.value), labels[:len(one.family.labels)]...)
		}
		to.number(fs.subscriptions, float64(n.Subscriptions), n.Name)
		to.number(fs.channels, float64(n.Channels), n.Name)
		to.number(fs.logBytes, float64(n.LogBytes), n.Name)
	}
	to.number(fs.shrunk, float64(s.Shrunk))
	to.number(fs.sessions, float64(s.Sessions))
	to.number(fs.blocked, float64(s.Blocked))
	to.number(fs.stalls, float64(s.Stalls))
	to.number(fs.waiting, float64(s.Waiting))
	to.times(fs.passes, &m.passes)
	to.times(fs.delays, &m.live, "live")
	to.times(fs.delays, &m.fromLog, "log")
}

func (m *Metrics) collectGateway(to sink, s gateway.Stats) {
	fs := m.families
	for name, one := range s.Transports {
		to.number(fs.connections, float64(one.Clients), name)
		to.number(fs.opened, float64(one.Opened), name)
		to.number(fs.bytesIn, float64(one.BytesIn), name)
		to.number(fs.bytesOut, float64(one.BytesOut), name)
		for code, n := range one.Disconnected {
			to.number(fs.disconnects, float64(n), name, codeName(code))
		}
		to.number(fs.disconnects, float64(one.TimedOut), name, "timeout")
		to.number(fs.disconnects, float64(one.Left), name, "left")
	}
	for _, one := range [...]struct {
		reason string
		n      uint64
	}{
		{"closing", s.Refused.Closing},
		{"full", s.Refused.Full},
		{"address", s.Refused.Address},
		{"ramp", s.Refused.Ramp},
		{"origin", s.Refused.Origin},
		{"request", s.Refused.Request},
		{"client", s.Refused.Client},
		{"session", s.Refused.Session},
	} {
		to.number(fs.refused, float64(one.n), one.reason)
	}
	for kind, n := range s.Commands {
		to.number(fs.commands, float64(n), kind.String())
	}
	for code, n := range s.Errors {
		to.number(fs.commandErrors, float64(n), errorNames[code])
	}
	to.number(fs.limited, float64(s.Limited.Session), "session")
	to.number(fs.limited, float64(s.Limited.Address), "address")
	to.number(fs.limited, float64(s.Limited.Bytes), "bytes")
	to.number(fs.limited, float64(s.Limited.Inbox), "inbox")
	for _, one := range s.Exceeded {
		to.number(fs.exceeded, float64(one.Exceeded), string(one.Name), strconv.FormatBool(one.Enforced))
	}
	to.number(fs.panics, float64(s.Panics))
	to.number(fs.queueBytes, float64(s.QueueBytes))
}

func (m *Metrics) collectAPI(to sink, s api.Stats) {
	fs := m.families
	for method, outcomes := range s.Requests {
		for code, n := range outcomes {
			if n > 0 || code == 0 { // most methods never answer most errors
				to.number(fs.requests, float64(n), method, errorNames[code])
			}
		}
	}
	m.mu.Lock()
	times := maps.Clone(m.requests)
	m.mu.Unlock()
	for method, h := range times {
		to.times(fs.requestTimes, h, method)
	}
}

func (m *Metrics) collectBroker(to sink, s broker.Stats) {
	fs := m.families
	connected := 0
	if s.Connected {
		connected = 1
	}
	to.number(fs.connected, float64(connected), s.Kind)
	to.number(fs.reconnects, float64(s.Reconnects))
	to.number(fs.refusedMessages, float64(s.Refused))
	to.number(fs.pending, float64(s.Pending))
	to.number(fs.stored, float64(s.Stored))
	to.number(fs.storeLimit, float64(s.StoreLimit))
	full := 0
	if s.Full {
		full = 1
	}
	to.number(fs.storeFull, float64(full))
}

func (m *Metrics) collectCluster(to sink, c Cluster) {
	fs, set := m.families, c.Set()
	roles := [...]int{cluster.All: 0, cluster.Hub: 0, cluster.Gateway: 0}
	draining := 0
	for i := range set.Members() {
		one := &set.Members()[i]
		roles[one.Role]++
		if one.Draining {
			draining++
		}
	}
	for role, n := range roles {
		to.number(fs.nodes, float64(n), cluster.Role(role).String()) //nolint:gosec // there are three roles
	}
	to.number(fs.drainingNodes, float64(draining))
	to.number(fs.links, float64(c.Links()))
	to.number(fs.moved, float64(c.Moved()))
}
