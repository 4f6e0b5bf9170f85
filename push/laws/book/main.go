// Command book tries the laws of tables on real order books:
//
//	go build -o bin/sluice ./cmd/sluice && go run ./push/laws/book -data DIR
//
// `make laws-data` does both. It starts a node, publishes what happened to recorded order books at a multiple of the recorded speed, each
// price level a row of a table channel, and has clients subscribe in all the ways in which less comes than was published: served at most 20, 5
// or once a second, reading nothing for a minute, behind a network of 50 kbit/s. At check points nothing is published until the clients have caught up. Then each has to have exactly the book that applying the recording gives, row by row, and its
// best bid and ask have to be those that the exchange itself named after the same update. The clients that stall or are behind the
// weak network are compared when they can have caught up, in the end at the latest.
//
// The recordings are Binance's: depth updates and best quotes. An update and a quote of the same number belong together.
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
	flag.StringVar(&t.program, "sluice", "bin/sluice", "the `program` that is tried")
	flag.StringVar(&t.broker, "broker", "nats", "the node's broker: nats, which is embedded, or memory")
	flag.StringVar(&t.folder, "data", "", "`folder` with the recordings")
	flag.StringVar(&instruments, "instruments", "spot_btcusdt_20240808,spot_ethusdt_20240808,usdm_btcusdt_20240808", "which recordings, "+
		"with commas between; clients behind the weak network want the first only")
	flag.DurationVar(&t.recorded, "recorded", 200*time.Second, "how much of the recordings, 0: all")
	flag.Float64Var(&t.speed, "speed", 2, "how much faster than recorded")
	flag.IntVar(&t.points, "points", 5, "check points of each instrument")
	flag.IntVar(&t.removals, "removals", 5000, "how many removed levels a table remembers: a client that is further behind begins afresh")
	flag.DurationVar(&t.stall, "stall", time.Minute, "how long clients stall that do")
	flag.StringVar(&t.weak, "weak", "down=50kbit,up=50kbit", "the weak network, as in sluice bench --network")
	flag.DurationVar(&t.patience, "patience", 10*time.Minute, "how long may be waited for clients to catch up")
	flag.StringVar(&forms, "delta", "none,merge", "forms of deltas that clients ask for, with commas between; each has clients of all kinds")
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
	out, err := t.try(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "book:", err)
		os.Exit(1)
	}
	fmt.Print(out)
	if !out.sound() {
		os.Exit(1)
	}
}
