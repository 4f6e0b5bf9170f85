// Command udp-telemetry receives what devices measure, a small datagram for each measurement, and keeps the latest of each device. A
// line each second says how many devices there are, and how they do.
//
// A datagram is text: the name of the device, the number of the measurement, and a temperature, with one space between them, such as
// "boiler-7 42 21.5". Names have 1 to 32 letters, digits, dashes, dots and underscores; numbers grow. Datagrams may be lost, come
// twice or overtake each other; so what has not a larger number than the latest is old, and only counted.
//
// Each address that sends is a session of package session, whose state is the latest measurement. It ends when nothing came for as
// long as -expiry says, and the device is forgotten. A device that starts anew, with small numbers, does so from another port.
// Nothing is ever answered, so that nobody can have somebody else flooded.
//
// With -send it plays devices instead, each of which sends a datagram at an interval. It ends with status 1 when it learns that nobody
// listens there.
package main

import (
	"context"
	"errors"
	"flag"
	"sync"
	"time"

	"github.com/sluice-push/sluice/examples/internal/run"
	"github.com/sluice-push/sluice/session"
	"github.com/sluice-push/sluice/transport/udp"
)

func main() {
	at := flag.String("listen", "127.0.0.1:7005", "`address` to receive at; port 0 is one that is free")
	expiry := flag.Duration("expiry", 30*time.Second, "how long a silent device is remembered")
	interval := flag.Duration("interval", time.Second, "how often to print a line, or with -send to send")
	to := flag.String("send", "", "play devices that send to this `address`")
	devices := flag.Int("devices", 10, "with -send, how many devices")
	count := flag.Uint64("count", 0, "with -send, how many datagrams each device sends; 0 is without end")
	run.Parse()
	if *expiry <= 0 || *interval <= 0 || *devices < 1 {
		run.Fail(errors.New("-expiry, -interval and -devices: more than nothing"))
	}
	if *to == "" {
		receive(*at, *expiry, *interval)
	}
	if err := play(run.Signals(), settings{*to, *devices, *count, *interval}); err != nil {
		run.Fail(err)
	}
}

// receive is the server. It does not return.
func receive(address string, expiry, interval time.Duration) {
	app := run.New()
	// Devices that measure by the same clock send at the same moment: the kernel needs room for that.
	pc, err := udp.Listen(context.Background(), "udp", address, &udp.Options{ReadBuffer: 4 << 20})
	if err != nil {
		run.Fail(err)
	}
	run.Say("listening on %v", pc.LocalAddr())
	r := newReceiver(&session.Options{IdleTimeout: expiry, MaxSessions: 100_000})
	stop := make(chan struct{})
	var printer sync.WaitGroup
	printer.Go(func() { r.print(interval, stop) })
	app.AtEnd(func(ctx context.Context) error {
		err := r.srv.Shutdown(ctx)
		close(stop)
		printer.Wait()
		return err
	})
	app.Exit(r.srv.ServePacket(pc))
}
