package loadtest

import "github.com/sluice-push/sluice/cmd/sluice/internal/loadtest/delivery"

// A run and its workers exchange messages over pipes. The run sends one job and then commands, and the worker sends reports. A message is one
// value of encoding/gob, which precedes it with its length. A worker in the process of the run uses the same messages over in-memory pipes.

// job is the first message to a worker.
type job struct {
	Spec     Spec     // with all defaults
	Tokens   []string // of the clients of the worker, one for all or one for each; none: they send no token
	Run      uint32   // identifies the run in payloads
	From, To int      // the clients of the worker: From to To-1
}

// command tells a worker what to do. The other fields are the arguments of some kinds.
type command struct {
	Kind commandKind

	From, To  int64                // cmdMeasure: host clock; publications due from From until To count
	Published []delivery.Published // cmdDrain: by stream
	First     uint32               // cmdDrain: the first publication that counts
}

type commandKind uint8

const (
	cmdConnect       commandKind = iota + 1 // connect and subscribe all clients
	cmdMeasure                              // set which publications count
	cmdStall                                // let the clients that stall stop reading
	cmdResumeReading                        // let them read again
	cmdStorm                                // reset all connections and let the clients rejoin
	cmdDrain                                // wait until every expected publication has come
	cmdStopWaiting                          // end connecting, rejoining and draining
	cmdFinish                               // send the result, and end
)

// report is a message from a worker. One field is set.
type report struct {
	Status    *status
	Done      []uint32 // closed loop: publications that all clients of the worker have
	Connected *connected
	Drained   bool          // cmdDrain has been carried out
	Result    *workerResult // the last report
}

// status holds the current counters of a worker.
type status struct {
	Subscribed int
	Counts     counts
	Live       []int64 // counts of the latency histogram of the clients that read
}

// connected reports that each client of a worker has joined or failed.
type connected struct {
	Readers []int64 // by channel: how many clients are subscribed and will read
	Clients int
	Joined  int64          // host clock; when the last client joined
	Reasons map[string]int // why clients failed
}
