package loadtest

import (
	"time"
)

// Shape is the pattern of channels, clients and publications of a run.
type Shape string

// The shapes.
const (
	One    Shape = "one"    // one channel, to which all clients subscribe
	Market Shape = "market" // many channels of unequal rates (Zipf); each client subscribes to some of them
	Slow   Shape = "slow"   // like One, but a fraction of the clients stops reading
	Storm  Shape = "storm"  // like One, but all clients are disconnected at once, and resume
	Idle   Shape = "idle"   // clients are subscribed, and nothing is published
)

// Result is the result of a run. Result files hold its JSON form.
type Result struct {
	Format  int       `json:"format"` // version of this format: 1
	Version string    `json:"version"`
	Began   time.Time `json:"began"`
	Seconds float64   `json:"seconds"` // length of the measured part: from its beginning until the last delivery, or until its end if that is later
	Host    *Host     `json:"host,omitempty"`
	Spec    Spec      `json:"spec"`

	Connects     Connects     `json:"connects"`
	Publications Publications `json:"publications"`
	Deliveries   Deliveries   `json:"deliveries"`

	Latency Latency   `json:"latency"`           // from the due time of a publication until a client had it; all deliveries to clients that read
	Last    Latency   `json:"last"`              // one value for each publication: until the last client that reads had it
	Stalled *Latency  `json:"stalled,omitempty"` // of deliveries to the clients that stopped reading
	Storm   *Recovery `json:"storm,omitempty"`

	Server    *Usage   `json:"server,omitempty"`    // of the processes that were named as those of the server
	Generator *Usage   `json:"generator,omitempty"` // of the processes of the load generator
	Moments   []Moment `json:"moments,omitempty"`   // second by second
	Problems  []string `json:"problems,omitempty"`  // what to know before trusting the figures, one sentence each
}

// Connects says how the connections of the clients went.
type Connects struct {
	Clients     int            `json:"clients"`                // that connected and were subscribed to all of their channels
	Failed      int            `json:"failed"`                 // that never did
	Cut         int            `json:"cut"`                    // connections that the server or the network ended, without Resets
	Resets      int            `json:"resets,omitempty"`       // connections that a simulated network reset, or that ended with Spec.Route; their clients rejoin
	NotRejoined int            `json:"not_rejoined,omitempty"` // clients that had not rejoined when the run ended
	Seconds     float64        `json:"seconds"`                // until the last client was subscribed
	Reasons     map[string]int `json:"reasons,omitempty"`      // why connections failed or ended, in the words of the server or the network
}

// Publications says what was published in the measured part.
type Publications struct {
	Due     uint64  `json:"due"`     // by the schedule
	Sent    uint64  `json:"sent"`    // accepted by the server
	Refused uint64  `json:"refused"` // refused by the server
	Rate    float64 `json:"rate"`    // accepted per second
	Late    float64 `json:"late_ms"` // the longest delay after the schedule; the generator or slow answers of the server cause it
}

// Deliveries says what arrived. After a perfect run all fields are 0 except for Expected, Received and PerSecond. Announced is no loss: it counts the
// deliveries that the server announced to have left out, as its policy allows. Expected and Received count the publications of the measured part,
// each once. The other counts include the warm-up. A Corrupt delivery is not received, so its publication is Lost as well, unless it comes again.
type Deliveries struct {
	Expected   uint64  `json:"expected"`
	Received   uint64  `json:"received"`
	PerSecond  float64 `json:"per_second"`
	Lost       uint64  `json:"lost"`
	Announced  uint64  `json:"announced"`
	Duplicated uint64  `json:"duplicated"`
	Disordered uint64  `json:"disordered"`
	Corrupt    uint64  `json:"corrupt"`
}

// Sound reports whether no delivery was lost, duplicated, out of order or corrupt.
func (d *Deliveries) Sound() bool { return d.Lost+d.Duplicated+d.Disordered+d.Corrupt == 0 }

// Latency is a distribution of latencies in milliseconds. If nothing was measured, all fields are 0.
type Latency struct {
	Count uint64  `json:"count"`
	Mean  float64 `json:"mean_ms"`
	P50   float64 `json:"p50_ms"`
	P90   float64 `json:"p90_ms"`
	P99   float64 `json:"p99_ms"`
	P999  float64 `json:"p999_ms"`
	Max   float64 `json:"max_ms"`
}

// Recovery says how clients rejoined after all of them were disconnected at once.
type Recovery struct {
	Cut        int     `json:"cut"`         // clients that were disconnected
	Back       int     `json:"back"`        // clients that are subscribed again
	Resumed    int     `json:"resumed"`     // clients for which the server claimed to recover all missed publications
	NotResumed int     `json:"not_resumed"` // clients that the server told of a possible loss
	BackAfter  float64 `json:"back_s"`      // seconds from the disconnect until the last client was subscribed again
	CaughtUp   float64 `json:"caught_up_s"` // seconds from the disconnect until the last client had its missed publications
}

// Usage says what resources a set of processes used in the measured part. Memory is resident memory in bytes.
type Usage struct {
	Processes   int     `json:"processes"`
	CPU         float64 `json:"cpu_s"`               // seconds, user and system
	PerDelivery float64 `json:"cpu_us_per_delivery"` // microseconds
	Before      int64   `json:"rss_before"`          // before the first client connected
	Idle        int64   `json:"rss_subscribed"`      // when all clients were subscribed and nothing was published yet
	Peak        int64   `json:"rss_peak"`
	After       int64   `json:"rss_after"`
	PerClient   int64   `json:"rss_per_client"` // (Idle - Before) / clients
	Sockets     int64   `json:"socket_bytes"`   // peak of the kernel's TCP memory of the whole host, minus its value before the first client
}

// Moment describes about one second of a run.
type Moment struct {
	Second    float64 `json:"s"`         // its end, since the beginning of the measured part
	Published uint64  `json:"published"` // in this second
	Delivered uint64  `json:"delivered"` // in this second
	Connected int     `json:"connected"` // clients that are subscribed at its end
	P50       float64 `json:"p50_ms"`
	P99       float64 `json:"p99_ms"`
	CPU       float64 `json:"server_cpu"` // cores
	Memory    int64   `json:"server_rss"`
	Sockets   int64   `json:"socket_bytes,omitempty"` // as in Usage, at the end of this second
}

// Host is the machine that ran the load.
type Host struct {
	Name      string  `json:"name"`
	System    string  `json:"system"` // kernel and architecture
	CPU       string  `json:"cpu"`
	Cores     int     `json:"cores"`
	Memory    int64   `json:"memory"` // bytes
	Load      float64 `json:"load"`   // the one-minute load average before the run
	Stolen    float64 `json:"stolen"` // fraction of the CPU time that other virtual machines took during the run
	Toolchain string  `json:"toolchain"`
}

// Phase is a phase of a run.
type Phase string

// The phases of a run, in their order.
const (
	Connecting Phase = "connecting"
	Settling   Phase = "settling" // all clients are subscribed, and nothing is published yet
	Warming    Phase = "warming"  // publications are sent that do not count
	Measuring  Phase = "measuring"
	Draining   Phase = "draining" // nothing more is published, and publications under way arrive
	Closing    Phase = "closing"
)

// Progress describes a run that is under way.
type Progress struct {
	Phase      Phase
	Elapsed    time.Duration // since the run began
	Left       time.Duration // until the planned end of the measured part; 0 if unknown
	Clients    int           // clients that are subscribed now
	Target     int           // clients of the run
	Published  uint64
	Delivered  uint64
	Expected   uint64
	Wrong      uint64  // deliveries that are known to be lost, duplicated, out of order or corrupt
	Publishing float64 // publications per second, over the last second
	Delivering float64 // deliveries per second, over the last second
	Recent     Latency // over the last second
	Latency    Latency // over all deliveries that count
}
