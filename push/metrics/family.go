package metrics

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-push/sluice/internal/count"
	"github.com/sluice-push/sluice/push"
)

// family is a metric with all its label values.
type family struct {
	desc   *prometheus.Desc
	kind   prometheus.ValueType
	labels []string
}

// families are all that a node has of its own, in groups by who counts.
type families struct {
	all []*prometheus.Desc

	info, ready family

	received, published, publishErrors, delivered, conflated, lost, lostUnknown family
	subscribes, ended, subscriptions, channels, logBytes                        family
	shrunk, sessions, blocked, stalls, waiting, passes, delays                  family

	connections, opened, refused, disconnects, bytesIn, bytesOut family
	commands, commandErrors, limited, panics, queueBytes         family

	requests, requestTimes family

	connected, reconnects, refusedMessages, pending, stored, storeLimit, storeFull family
}

func (fs *families) add(kind prometheus.ValueType, name, help string, labels ...string) family {
	f := family{prometheus.NewDesc("sluice_"+name, help, labels, nil), kind, labels}
	fs.all = append(fs.all, f.desc)
	return f
}

func (fs *families) counter(name, help string, labels ...string) family {
	return fs.add(prometheus.CounterValue, name, help, labels...)
}

func (fs *families) gauge(name, help string, labels ...string) family {
	return fs.add(prometheus.GaugeValue, name, help, labels...)
}

func newFamilies() *families {
	fs := &families{}
	fs.info = fs.gauge("build_info", "What is running; always 1.", "version", "goversion")
	fs.ready = fs.gauge("ready", "Whether the node admits clients: 0 while it waits for its broker and while it shuts down.")
	fs.ofHub()
	fs.ofGateway()

	fs.requests = fs.counter("api_requests_total", "Requests to the HTTP API that were answered.", "method", "outcome")
	fs.requestTimes = fs.add(prometheus.UntypedValue, "api_request_duration_seconds", "How long requests to the HTTP API took.", "method")

	fs.connected = fs.gauge("broker_connected", "Whether the broker can be reached.", "kind")
	fs.reconnects = fs.counter("broker_reconnects_total", "How often a connection to the broker was made anew.")
	fs.refusedMessages = fs.counter("broker_refused_messages_total", "Messages in the broker that are no publications, or unfit for clients, and were left out.")
	fs.pending = fs.gauge("broker_pending_publications", "Publications that are not acknowledged, or not yet given to this node's channels.")
	fs.stored = fs.gauge("broker_stored_bytes", "Bytes that an embedded broker holds on disk, at most.")
	fs.storeFull = fs.gauge("broker_full", "1 when the last publication for the store was refused because there is no room.")
	fs.storeLimit = fs.gauge("broker_store_limit_bytes", "Bytes that publications may come to there; 0: no limit.")
	return fs
}

func (fs *families) ofHub() {
	const ns = "namespace"
	fs.received = fs.counter("publications_received_total", "Publications that the broker delivered to this node.", ns)
	fs.published = fs.counter("publications_accepted_total", "Publications of this node that the broker accepted.", ns)
	fs.publishErrors = fs.counter("publish_errors_total", "Publications of this node that the broker did not accept.", ns, "reason")
	fs.delivered = fs.counter("deliveries_total", "Publications that clients' connections took, each as often as it was.", ns)
	fs.conflated = fs.counter("conflated_publications_total",
		"Publications that subscriptions were not sent because newer ones took their places.", ns)
	fs.lost = fs.counter("lost_publications_total", "Publications that were evicted before a slow subscription had read them.", ns)
	fs.lostUnknown = fs.counter("losses_of_unknown_size_total", "Times that it is not known how many publications a subscription lost.", ns)
	fs.subscribes = fs.counter("subscribes_total", "Subscriptions begun, by what became of the position they came with.", ns, "outcome")
	fs.ended = fs.counter("subscriptions_ended_total", "Subscriptions that the server ended.", ns, "reason")
	fs.subscriptions = fs.gauge("subscriptions", "Subscriptions now.", ns)
	fs.channels = fs.gauge("channels", "Channels that are loaded now.", ns)
	fs.logBytes = fs.gauge("log_bytes", "What the publications in loaded channels come to, as of the last second.", ns)
	fs.shrunk = fs.counter("logs_shrunk_total", "Channels that had to forget publications because all together held too much.")
	fs.sessions = fs.gauge("sessions", "Connected clients that have said who they are.")
	fs.blocked = fs.gauge("blocked_sessions", "Sessions whose connection takes nothing now.")
	fs.stalls = fs.counter("session_stalls_total", "How often connections began to take nothing.")
	fs.waiting = fs.gauge("fanout_waiting", "Topics, rounds and sessions that wait for a worker of the fan-out.")
	fs.passes = fs.add(prometheus.UntypedValue, "fanout_duration_seconds",
		"How long it took to offer what was new in some channels to all their subscribers.")
	fs.delays = fs.add(prometheus.UntypedValue, "delivery_delay_seconds",
		"Age of publications when connections took them: since the broker accepted them, by its clock.", "path")
}

func (fs *families) ofGateway() {
	const transport = "transport"
	fs.connections = fs.gauge("connections", "Connections of clients now.", transport)
	fs.opened = fs.counter("connections_opened_total", "Connections that became clients.", transport)
	fs.refused = fs.counter("connections_refused_total", "Connections that became no clients.", "reason")
	fs.disconnects = fs.counter("disconnects_total", "Connections of clients that ended, by the code that the server gave, or why.", transport, "code")
	fs.bytesIn = fs.counter("received_bytes_total", "Bytes received from clients, without handshakes and requests.", transport)
	fs.bytesOut = fs.counter("sent_bytes_total", "Bytes that clients' connections took, without handshakes.", transport)
	fs.commands = fs.counter("commands_total", "Commands that clients sent.", "kind")
	fs.commandErrors = fs.counter("command_errors_total", "Errors that commands were answered with.", "error")
	fs.limited = fs.counter("commands_limited_total", "Commands that were refused because there were too many a second, by whose rate that was.", "of")
	fs.panics = fs.counter("panics_total", "Panics in the handling of what clients sent; each ended one connection.")
	fs.queueBytes = fs.gauge("queue_bytes", "Bytes that wait to be written to clients, as of the last second.")
}

// errorNames are the names of the codes of push.Error.
var errorNames = map[uint32]string{
	0:                                  "ok",
	count.Other:                        "other",
	push.ErrInternal.Code:              "internal",
	push.ErrUnauthorized.Code:          "unauthorized",
	push.ErrUnknownChannel.Code:        "unknown_channel",
	push.ErrPermissionDenied.Code:      "permission_denied",
	push.ErrMethodNotFound.Code:        "method_not_found",
	push.ErrAlreadySubscribed.Code:     "already_subscribed",
	push.ErrLimitExceeded.Code:         "limit_exceeded",
	push.ErrBadRequest.Code:            "bad_request",
	push.ErrNotAvailable.Code:          "not_available",
	push.ErrTokenExpired.Code:          "token_expired",
	push.ErrExpired.Code:               "expired",
	push.ErrTooManyRequests.Code:       "too_many_requests",
	push.ErrUnrecoverablePosition.Code: "unrecoverable_position",
}

// codeName returns the code of a disconnect as a label.
func codeName(code uint32) string {
	if code == count.Other {
		return "other"
	}
	return strconv.FormatUint(uint64(code), 10)
}
