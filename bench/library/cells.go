package main

import (
	"fmt"
	"time"
)

// cell is one workload.
type cell struct {
	name     string // as in -cells
	title    string
	echo     bool // otherwise requests are acknowledged
	size     int  // of the frames that are sent, in bytes
	conns    int
	inFlight int           // on each connection, when rate is 0
	rate     int           // messages a second in all; 0: as fast as answers come
	sleep    time.Duration // for how long a handler sleeps
	every    int           // one in so many does; 0: none
	burners  int           // goroutines that compute in the process of the server
	windows  int           // how many times -seconds it is measured for
}

const kib = 1 << 10

// cells are all workloads, in the order of tables.
func cells() []cell {
	list := []cell{
		{name: "a1", size: 915, conns: 100, inFlight: 1},
		{name: "a2", size: 915, conns: 5, inFlight: 16},
		{name: "b100", echo: true, size: kib, conns: 100, inFlight: 1},
		{name: "b1000", echo: true, size: kib, conns: 1000, inFlight: 1},
		{name: "b10000", echo: true, size: kib, conns: 10000, inFlight: 1},
		{name: "b1000x16", echo: true, size: kib, conns: 1000, inFlight: 16},
		{name: "b64k", echo: true, size: 64 * kib, conns: 100, inFlight: 1},
	}
	for i := range list {
		c := &list[i]
		c.title = c.describe()
		c.windows = max(c.windows, 1)
	}
	return list
}

func (c cell) describe() string {
	what := fmt.Sprintf("requests of %d B, acknowledged", c.size)
	if c.echo {
		what = fmt.Sprintf("echo of %d KiB", c.size/kib)
	}
	how := fmt.Sprintf("%d in flight on each", c.inFlight)
	if c.inFlight == 1 {
		how = "one in flight on each"
	}
	return fmt.Sprintf("%s, %d connections, %s", what, c.conns, how)
}

// proto is what servers and client call the protocol.
func (c cell) proto() string {
	if c.echo {
		return "echo"
	}
	return "ack"
}
