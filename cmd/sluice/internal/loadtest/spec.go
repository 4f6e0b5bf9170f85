package loadtest

import (
	"time"
)

// The values of Spec.Protocol and Spec.Publish, and the default of Spec.Transport.
const (
	JSON      = "json"
	Protobuf  = "protobuf"
	Plain     = "plain"
	ByAPI     = "api"
	ByClient  = "client"
	WebSocket = "websocket"
)

// Spec describes a run. A zero field means the default that its comment gives.
type Spec struct {
	// URL is the address that clients connect to. With transport websocket that is ws://HOST:PORT/PATH, or wss. The schemes http and https stand for
	// ws and wss, and an empty path for /connection/websocket, except under protocol plain. With any other transport it is the public address of a
	// node, http://HOST:PORT or https. Default: a node at 127.0.0.1:8000. Results do not contain the users, queries and fragments of addresses.
	URL string `json:"url"`
	// Nodes are the addresses of other nodes of the same service, in the form of URL. Each connection goes to the next of URL and Nodes. This
	// also holds for a client that rejoins.
	Nodes []string `json:"nodes,omitempty"`
	// Route says that a client asks URL, or one of Nodes in turn, to which gateway of the cluster it should go, and that it comes back and resumes, by a
	// new route, when its connection ends for any reason. This needs the client protocol over HTTP, and shape one or market with a rate and without
	// clients that stop reading, or shape idle. With [ByAPI], a publication that a node certainly has not accepted for now goes to the next node.
	Route bool `json:"route,omitempty"`
	// Transport is one of the transports of package clientconn. With "websocket", the default, event loops run the clients. With any other one each
	// client has a goroutine, so a run has room for fewer of them.
	Transport string `json:"transport"`
	// Protocol is the protocol of the clients: the client protocol in the form "json" or "protobuf", as far as the transport carries it, or "plain".
	// Default: the default form of the transport, json for websocket. Under "plain", which only websocket carries, each message is a publication,
	// and the server sends every publication to every connection.
	Protocol string `json:"protocol"`
	// Publish is the way in which publications reach the server. "api", the default, is a POST of {"channel","data"} to PublishURL. "client" is
	// a publish command, in JSON, of a WebSocket client or, under protocol plain, a WebSocket message.
	Publish string `json:"publish"`
	// PublishURL is the URL of the publish method of the HTTP API. Default: /api/publish at the host of URL.
	PublishURL string `json:"publish_url,omitempty"`
	// Key is the value of the X-API-Key header, which is left out if Key is empty. Results do not contain it.
	Key string `json:"-"`
	// Token is the token in the connect command of clients, and Tokens are tokens for each client one, of which there are at least Clients. At most
	// one of both is set. Results do not contain them.
	Token  string   `json:"-"`
	Tokens []string `json:"-"`

	Shape    Shape   `json:"shape"`    // default One
	Clients  int     `json:"clients"`  // default 1,000
	Channels int     `json:"channels"` // shapes market and storm: how many there are; default 2,000, with storm 1
	Each     int     `json:"each"`     // shapes market and storm: how many a client subscribes to; default 20, with storm 1
	Zipf     float64 `json:"zipf"`     // shape market: the exponent, above 1, of the distribution of publications over channels; 0: uniform
	Prefix   string  `json:"prefix"`   // of channel names, before a number; default "ticks:load-"
	Rate     float64 `json:"rate"`     // publications a second in all; default 1; negative: closed loop, which waits for all clients
	Window   int     `json:"window"`   // closed loop: how many publications may be under way; default 1
	Bytes    int     `json:"bytes"`    // size of the data of a publication, at least MinBytes of package delivery; default 256
	Seed     uint64  `json:"seed"`     // of all random sequences; default 1

	// Network simulates a network between the clients and the server. It has the syntax of network.ParseConditions in push/pushtest/network,
	// for example "edge" or "delay=200ms,down=50kbit". Each client process has a network of its own, and publications bypass it. If the network
	// resets connections, their clients rejoin and resume. This needs a shape as with Route. The conditions halfopen and refuse are not allowed.
	// "" means no network.
	Network string `json:"network,omitempty"`

	Stalled     float64       `json:"stalled"`      // shapes slow and market: fraction of the clients that stops reading; default 0.1 with slow
	StallFor    time.Duration `json:"stall_for_ns"` // for how long, in the middle of Duration; default: from its beginning to the end of the run
	StallBuffer int           `json:"stall_buffer"` // receive buffer of these clients in bytes; default 16 KiB
	Connect     int           `json:"connect"`      // connections that are established at a time; default 64
	Rejoin      int           `json:"rejoin"`       // shape storm: connections that are established again at a time; default: Connect
	RetryMin    time.Duration `json:"retry_min_ns"` // shortest pause before a client that could not connect tries again; default 20 ms
	RetryMax    time.Duration `json:"retry_max_ns"` // the longest; default 1 s, or RetryMin if that is more
	Settle      time.Duration `json:"settle_ns"`    // pause after the last subscription; default 2 s
	Warmup      time.Duration `json:"warmup_ns"`    // length of the warm-up, whose publications do not count; default 2 s
	Duration    time.Duration `json:"duration_ns"`  // length of the measured part; default 10 s
	Patience    time.Duration `json:"patience_ns"`  // how long the run waits for missing answers and publications; default 10 s
	Processes   int           `json:"processes"`    // client processes; default: as many as the limit of open files requires
	Spread      bool          `json:"spread"`       // connect from many addresses of 127.0.0.0/8 if the server is on this host
}
