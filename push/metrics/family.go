package metrics

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/internal/codecount"
)

// family is a metric name with its kind and its label names.
type family struct {
	desc   *prometheus.Desc
	kind   prometheus.ValueType
	labels []string
}

// families are the metrics of a node, grouped by their source.
type families struct {
	all []*prometheus.Desc

	info, ready family

	received, published, publishErrors, delivered, conflated, lost, lostUnknown family
	subscribes, ended, subscriptions, channels, logBytes                        family
	shrunk, sessions, blocked, stalls, waiting, passes, delays                  family

	connections, opened, refused, disconnects, bytesIn, bytesOut family
	commands, commandErrors, limited, panics, queueBytes         family
	tokens, revocations, exceeded                                family

	requests, requestTimes family

	connected, reconnects, refusedMessages, pending, stored, storeLimit, storeFull family

	nodes, drainingNodes, links, moved family
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
	fs.info = fs.gauge("build_info", "Version of the node, in the labels; always 1.", "version", "goversion")
	fs.ready = fs.gauge("ready", "1 if the node admits clients; 0 while it waits for its broker and while it shuts down.")
	fs.ofHub()
	fs.ofGateway()

	fs.requests = fs.counter("api_requests_total", "Answered requests to the HTTP API.", "method", "outcome")
	fs.requestTimes = fs.add(prometheus.UntypedValue, "api_request_duration_seconds", "Duration of requests to the HTTP API.", "method")

	fs.connected = fs.gauge("broker_connected", "1 if the broker can be reached.", "kind")
	fs.reconnects = fs.counter("broker_reconnects_total", "Reconnects to the broker.")
	fs.refusedMessages = fs.counter("broker_refused_messages_total", "Messages of the broker that were skipped, because they are no publications or not valid for clients.")
	fs.pending = fs.gauge("broker_pending_publications", "Publications that are not yet acknowledged, or not yet delivered to the channels of this node.")
	fs.stored = fs.gauge("broker_stored_bytes", "Upper bound of the bytes that an embedded broker stores on disk.")
	fs.storeFull = fs.gauge("broker_full", "1 if the store refused the last publication for lack of space.")
	fs.storeLimit = fs.gauge("broker_store_limit_bytes", "Limit of the stored bytes; 0: no limit.")

	fs.nodes = fs.gauge("cluster_nodes", "Nodes of the cluster that this node knows, itself included.", "role")
	fs.drainingNodes = fs.gauge("cluster_draining_nodes", "Nodes of the cluster that do not take clients and partitions, because they start or are about to end.")
	fs.links = fs.gauge("cluster_links", "Connections of gateways to this node.")
	fs.moved = fs.counter("cluster_clients_moved_total", "Clients that this node has sent to other gateways because they belong there.")
	return fs
}

func (fs *families) ofHub() {
	const ns = "namespace"
	fs.received = fs.counter("publications_received_total", "Publications received from the broker.", ns)
	fs.published = fs.counter("publications_accepted_total", "Publications through this node that the broker accepted.", ns)
	fs.publishErrors = fs.counter("publish_errors_total", "Publications through this node that the broker did not accept.", ns, "reason")
	fs.delivered = fs.counter("deliveries_total", "Deliveries: publications written to client connections, counted once per connection.", ns)
	fs.conflated = fs.counter("conflated_publications_total",
		"Publications not sent to a subscription because a newer one replaced them.", ns)
	fs.lost = fs.counter("lost_publications_total", "Publications evicted before a slow subscription had read them.", ns)
	fs.lostUnknown = fs.counter("losses_of_unknown_size_total", "Losses of a subscription with an unknown number of publications.", ns)
	fs.subscribes = fs.counter("subscribes_total", "Subscriptions started, by the outcome of recovery.", ns, "outcome")
	fs.ended = fs.counter("subscriptions_ended_total", "Subscriptions ended by the server.", ns, "reason")
	fs.subscriptions = fs.gauge("subscriptions", "Current subscriptions.", ns)
	fs.channels = fs.gauge("channels", "Channels loaded in memory.", ns)
	fs.logBytes = fs.gauge("log_bytes", "Bytes of the publications in loaded channels, updated every second.", ns)
	fs.shrunk = fs.counter("logs_shrunk_total", "Channels whose publications were trimmed because all channels together exceeded the memory limit.")
	fs.sessions = fs.gauge("sessions", "Clients that have completed the connect command.")
	fs.blocked = fs.gauge("blocked_sessions", "Sessions whose connection is not writable.")
	fs.stalls = fs.counter("session_stalls_total", "Times that a connection became not writable.")
	fs.waiting = fs.gauge("fanout_waiting", "Topics, fan-out batches and sessions waiting for a fan-out worker.")
	fs.passes = fs.add(prometheus.UntypedValue, "fanout_duration_seconds",
		"Duration of a fan-out batch: offering the new publications of some channels to all their subscribers.")
	fs.delays = fs.add(prometheus.UntypedValue, "delivery_delay_seconds",
		"Age of publications when they are written to a connection, since the broker accepted them, by the broker's clock.", "path")
}

func (fs *families) ofGateway() {
	const transport = "transport"
	fs.connections = fs.gauge("connections", "Current client connections.", transport)
	fs.opened = fs.counter("connections_opened_total", "Client connections accepted.", transport)
	fs.refused = fs.counter("connections_refused_total", "Client connections refused.", "reason")
	fs.disconnects = fs.counter("disconnects_total", "Client connections ended, by disconnect code or reason.", transport, "code")
	fs.bytesIn = fs.counter("received_bytes_total", "Bytes received from clients, excluding handshakes and requests.", transport)
	fs.bytesOut = fs.counter("sent_bytes_total", "Bytes sent to clients, excluding handshakes.", transport)
	fs.commands = fs.counter("commands_total", "Commands received from clients.", "kind")
	fs.commandErrors = fs.counter("command_errors_total", "Error replies to commands.", "error")
	fs.tokens = fs.counter("tokens_refused_total", "Tokens of clients that were refused.", "reason")
	fs.revocations = fs.gauge("revocations", "Revoked tokens and blocked users that the node knows.")
	fs.limited = fs.counter("commands_limited_total", "Commands refused by rate limits, by the limit: of a session, of an address, of the bytes of a session, or of what waits for a session.", "of")
	fs.exceeded = fs.counter("limits_exceeded_total", "Times that a limit was exceeded, whether it is enforced or not.", "limit", "enforced")
	fs.panics = fs.counter("panics_total", "Panics while handling input of clients; each ended one connection.")
	fs.queueBytes = fs.gauge("queue_bytes", "Bytes in the send queues of clients, updated every second.")
}

// errorNames are the names of the codes of push.Error.
var errorNames = map[uint32]string{
	0:                                  "ok",
	codecount.Other:                    "other",
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
	if code == codecount.Other {
		return "other"
	}
	return strconv.FormatUint(uint64(code), 10)
}
