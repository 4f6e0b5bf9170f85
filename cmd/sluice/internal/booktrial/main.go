// Command booktrial tests the laws of table channels with real order books:
//
//	go build -o bin/sluice ./cmd/sluice && go run ./cmd/sluice/internal/booktrial -data DIR
//
// `make laws-data` does both. The command starts a node and publishes recorded order books at a multiple of the recorded speed. Each price level
// is a row of a table channel. Its clients are slow in different ways, so that they get fewer publications than were made: at most 20, 5 or 1 a
// second, reading nothing for a minute, or behind a network of 50 kbit/s.
//
// At a check point, the command pauses publishing until the clients have caught up. Then each client must have exactly the book of the
// recording, row by row. The best bid and ask of that book must equal the exchange's quote for the same update. Clients that are
// stalled or behind the weak network are not compared at these check points, but only once they have had time to catch up, at the latest at the
// end.
//
// The recordings are Binance's depth updates and best quotes. An update and a quote of the same number belong together.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	t := trial{log: os.Stderr}
	var instruments, forms string
	flag.StringVar(&t.program, "sluice", "bin/sluice", "`program` under test")
	flag.StringVar(&t.broker, "broker", "nats", "broker of the node: nats, which is embedded, or memory")
	flag.StringVar(&t.folder, "data", "", "`folder` with the recordings")
	flag.StringVar(&instruments, "instruments", "spot_btcusdt_20240808,spot_ethusdt_20240808,usdm_btcusdt_20240808", "names of the recordings, "+
		"separated by commas; clients behind the weak network subscribe to the first only")
	flag.DurationVar(&t.recorded, "recorded", 200*time.Second, "length of the recordings to play, 0: all")
	flag.Float64Var(&t.speed, "speed", 2, "speed relative to the recording")
	flag.IntVar(&t.points, "points", 5, "number of check points of each instrument")
	flag.IntVar(&t.removals, "removals", 5000, "number of removed levels that a table remembers; a client further behind resubscribes without recovery")
	flag.DurationVar(&t.stall, "stall", time.Minute, "time for which stalled clients stop reading")
	flag.StringVar(&t.weak, "weak", "down=50kbit,up=50kbit", "simulated weak network, as in sluice bench --network")
	flag.DurationVar(&t.patience, "patience", 10*time.Minute, "maximum time to wait for clients to catch up")
	flag.StringVar(&forms, "delta", "none,merge", "delta formats that clients request, separated by commas; each has clients of all kinds")
	flag.Parse()
	if flag.NArg() > 0 || t.folder == "" || t.speed <= 0 || t.points < 1 {
		flag.Usage()
		os.Exit(2)
	}
	t.instruments = strings.Split(instruments, ",")
	for form := range strings.SplitSeq(forms, ",") {
		if form == "none" {
			form = ""
		}
		t.forms = append(t.forms, form)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	out, err := t.execute(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "book:", err)
		os.Exit(1)
	}
	fmt.Print(out)
	if !out.passed() {
		os.Exit(1)
	}
}
