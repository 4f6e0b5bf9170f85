package load

import "time"

// What clients may speak, and how publications may get in.
const (
	Centrifuge = "centrifuge"
	Plain      = "plain"
	ByAPI      = "api"
	ByClient   = "client"
)

// Spec is what a run is to do. The zero value of a field means the default that is named with it.
type Spec struct {
	// URL is where clients connect: ws://HOST:PORT/PATH, wss too. With http and https it is the server's, and protocol centrifuge has a
	// path of its own when there is none. Default ws://127.0.0.1:8000/connection/websocket.
	// Users, queries and fragments of addresses are not part of results.
	URL string `json:"url"`
	// Nodes are more addresses of the same kind, of other nodes of the same service: each connection goes to the next of URL and these, also
	// that of a client which was cut and comes again.
	Nodes []string `json:"nodes,omitempty"`
	// Protocol is what clients speak there: "centrifuge" (the Centrifuge client protocol in JSON; the default) or "plain" (WebSocket
	// messages that are publications and nothing else: whoever connects is subscribed to everything).
	Protocol string `json:"protocol"`
	// Publish is how publications get in: "api" (POST of {"channel","data"} to PublishURL; the default), "client" (by a client's publish
	// command, or with protocol plain a WebSocket message).
	Publish string `json:"publish"`
	// PublishURL is the HTTP API's publish method; default: /api/publish at the host of URL.
	PublishURL string `json:"publish_url,omitempty"`
	// Key is sent as X-API-Key when it is not empty. It is not part of results.
	Key string `json:"-"`
	// Token is what clients connect with. It is not part of results.
	Token string `json:"-"`

	Shape    Shape   `json:"shape"`    // default One
	Clients  int     `json:"clients"`  // default 1,000
	Channels int     `json:"channels"` // shape market: how many there are; default 2,000
	Each     int     `json:"each"`     // shape market: how many a client subscribes to; default 20
	Zipf     float64 `json:"zipf"`     // shape market: the exponent, above 1, of which channels are published to; 0: all alike
	Prefix   string  `json:"prefix"`   // channels are called this and a number; default "ticks:load-"
	Rate     float64 `json:"rate"`     // publications a second in all; default 1; negative: as fast as all clients have them (closed loop)
	Window   int     `json:"window"`   // closed loop: how many publications may be under way; default 1
	Bytes    int     `json:"bytes"`    // of the data of a publication, at least 64; default 256
	Seed     uint64  `json:"seed"`     // of everything random; default 1

	// Network is what is between the clients and the server: conditions as push/pushtest/network reads them, such as "edge", or
	// "delay=200ms,down=50kbit". Each process of clients has its own; publications get in past it. Clients whose connections it
	// resets come back and resume; that goes with shape one that has a rate, and with idle. Halfopen and refuse are not accepted.
	// "": nothing.
	Network string `json:"network,omitempty"`

	Stalled     float64       `json:"stalled"`      // shapes slow and market: share of the clients that stops reading; default with slow 0.1
	StallFor    time.Duration `json:"stall_for_ns"` // for how long, in the middle of Duration; default: all of it
	StallBuffer int           `json:"stall_buffer"` // their receive buffer in bytes; default 16 KiB
	Connect     int           `json:"connect"`      // connections that are being made at a time; default 64
	Settle      time.Duration `json:"settle_ns"`    // rest after the last subscription; default 2 s
	Warmup      time.Duration `json:"warmup_ns"`    // publications before those that count; default 2 s
	Duration    time.Duration `json:"duration_ns"`  // of those that count; default 10 s
	Patience    time.Duration `json:"patience_ns"`  // how long is waited for what is missing; default 10 s
	Processes   int           `json:"processes"`    // of clients; default as many as open files demand
	Spread      bool          `json:"spread"`       // connect from many addresses of 127.0.0.0/8 when the server is on this host
}
