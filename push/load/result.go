package load

import "time"

// Shape is what is published to whom.
type Shape string

// The shapes.
const (
	One    Shape = "one"    // one channel, to which all clients subscribe
	Market Shape = "market" // many channels of unequal rates (Zipf), of which each client wants some
	Slow   Shape = "slow"   // one, but a share of the clients stops reading
	Storm  Shape = "storm"  // one, but all clients are cut at once and resume
	Idle   Shape = "idle"   // clients that are subscribed, and nothing is published
)

// Result is what came of a run. Its JSON form is what is written to files and compared.
type Result struct {
	Form    int       `json:"form"` // of these fields: 1
	Version string    `json:"version"`
	Began   time.Time `json:"began"`
	Seconds float64   `json:"seconds"` // of what was measured: from the first publication until all had the last, or patience ended
	Host    *Host     `json:"host,omitempty"`
	Spec    Spec      `json:"spec"`

	Connects     Connects     `json:"connects"`
	Publications Publications `json:"publications"`
	Deliveries   Deliveries   `json:"deliveries"`

	Latency Latency   `json:"latency"`           // from when a publication was due until a client had it, all deliveries to clients that read
	Last    Latency   `json:"last"`              // until the last client that reads had it, by publication
	Stalled *Latency  `json:"stalled,omitempty"` // of the clients that stopped reading
	Storm   *Recovery `json:"storm,omitempty"`

	Server    *Usage   `json:"server,omitempty"` // of the processes that were named as the server's
	Generator *Usage   `json:"generator,omitempty"`
	Moments   []Moment `json:"moments,omitempty"`  // second by second
	Problems  []string `json:"problems,omitempty"` // what is worth knowing before the figures are believed
}

// Connects says how clients came in.
type Connects struct {
	Clients int            `json:"clients"`           // that connected and were subscribed to all they want
	Failed  int            `json:"failed"`            // that never did
	Cut     int            `json:"cut"`               // connections that ended without our doing
	Resets  int            `json:"resets,omitempty"`  // connections that ended without a word behind a network that resets them; clients come back from that
	Away    int            `json:"away,omitempty"`    // clients that were not back from that in the end
	Seconds float64        `json:"seconds"`           // until the last was subscribed
	Reasons map[string]int `json:"reasons,omitempty"` // why connections failed or ended: as the server said it, or the network
}

// Publications says what was published.
type Publications struct {
	Due     uint64  `json:"due"`     // by the schedule
	Sent    uint64  `json:"sent"`    // accepted by the server
	Refused uint64  `json:"refused"` // and not
	Rate    float64 `json:"rate"`    // accepted in a second
	Late    float64 `json:"late_ms"` // by how much the schedule was missed at most: our own doing, or the server's answers that were waited for
}

// Deliveries says what arrived. All but Expected, Received and PerSecond are 0 after a perfect run; Told is no loss: the server said that
// it left something out, as its policy has it. Expected and Received are of publications that count, each once; the rest is of those of
// the warm-up as well. A delivery that is Corrupt has not been received, so what it was to be is Lost besides, unless it came again.
type Deliveries struct {
	Expected   uint64  `json:"expected"`
	Received   uint64  `json:"received"`
	PerSecond  float64 `json:"per_second"`
	Lost       uint64  `json:"lost"`
	Told       uint64  `json:"told"`
	Duplicated uint64  `json:"duplicated"`
	Disordered uint64  `json:"disordered"`
	Corrupt    uint64  `json:"corrupt"`
}

// Sound reports whether nothing was lost, doubled, out of order or changed.
func (d *Deliveries) Sound() bool { return d.Lost+d.Duplicated+d.Disordered+d.Corrupt == 0 }

// Latency is a distribution in milliseconds. It is all zero when nothing was measured.
type Latency struct {
	Count uint64  `json:"count"`
	Mean  float64 `json:"mean_ms"`
	P50   float64 `json:"p50_ms"`
	P90   float64 `json:"p90_ms"`
	P99   float64 `json:"p99_ms"`
	P999  float64 `json:"p999_ms"`
	Max   float64 `json:"max_ms"`
}

// Recovery says how clients came back after all were cut at once.
type Recovery struct {
	Cut       int     `json:"cut"`
	Back      int     `json:"back"`        // that are subscribed again
	Resumed   int     `json:"resumed"`     // to which the server said that they have missed nothing
	Fresh     int     `json:"fresh"`       // to which it said that they may have
	BackAfter float64 `json:"back_s"`      // seconds from the cut until the last was subscribed again
	CaughtUp  float64 `json:"caught_up_s"` // until the last had all that was published meanwhile
}

// Usage is what processes cost during the measured part.
type Usage struct {
	Processes   int     `json:"processes"`
	CPU         float64 `json:"cpu_s"` // user and system
	PerDelivery float64 `json:"cpu_us_per_delivery"`
	Before      int64   `json:"rss_before"`     // bytes before the first client
	Idle        int64   `json:"rss_subscribed"` // when all were subscribed and nothing was published yet
	Peak        int64   `json:"rss_peak"`
	After       int64   `json:"rss_after"`
	PerClient   int64   `json:"rss_per_client"` // (Idle - Before) / clients
	Sockets     int64   `json:"socket_bytes"`   // the kernel's memory for TCP of the whole host, at its highest, less what it was before
}

// Moment is one second of a run.
type Moment struct {
	Second    float64 `json:"s"` // since the first publication was due
	Published uint64  `json:"published"`
	Delivered uint64  `json:"delivered"`
	Connected int     `json:"connected"`
	P50       float64 `json:"p50_ms"`
	P99       float64 `json:"p99_ms"`
	CPU       float64 `json:"server_cpu"` // cores
	Memory    int64   `json:"server_rss"`
	Sockets   int64   `json:"socket_bytes,omitempty"` // as in Usage, by now
}

// Host is the machine that ran the load.
type Host struct {
	Name      string  `json:"name"`
	System    string  `json:"system"` // kernel and architecture
	CPU       string  `json:"cpu"`
	Cores     int     `json:"cores"`
	Memory    int64   `json:"memory"`
	Load      float64 `json:"load"`   // the load average of a minute before the run
	Stolen    float64 `json:"stolen"` // share of the processors' time that other machines took during the run
	Toolchain string  `json:"toolchain"`
}

// Phase is what a run is doing.
type Phase string

// The phases, in their order.
const (
	Connecting Phase = "connecting"
	Settling   Phase = "settling" // all are subscribed; nothing is published yet
	Warming    Phase = "warming"  // publications that do not count
	Measuring  Phase = "measuring"
	Draining   Phase = "draining" // nothing more is published; what is under way arrives
	Closing    Phase = "closing"
)

// Progress is a look at a run that is under way.
type Progress struct {
	Phase      Phase
	Elapsed    time.Duration // since the run began
	Left       time.Duration // until the measured part ends, as planned; 0 when unknown
	Clients    int           // subscribed by now
	Target     int           // how many it will be
	Published  uint64
	Delivered  uint64
	Expected   uint64
	Wrong      uint64  // lost as far as is known, doubled, out of order, changed
	Publishing float64 // in the last second
	Delivering float64 // in the last second
	Recent     Latency // of the last second
	Latency    Latency // of all that count
}
