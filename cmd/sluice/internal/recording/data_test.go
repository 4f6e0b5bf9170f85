package recording_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/sluice-push/sluice/cmd/sluice/internal/recording"
)

// file is the known content of a recording.
type file struct {
	name    string
	frames  int
	named   int // frames with a symbol: all but acknowledgements, heartbeats, greetings, and snapshots without a symbol
	symbols int
}

// cut are the excerpts in the repository, full are the recordings in the folder SLUICE_DATA.
var (
	cut = []file{
		{"binance-2024-08-08/spot_btcusdt_20240808.gz", 5509, 5508, 1},
		{"binance-2024-08-08/spot_btcusdt_depth_20240808.gz", 226, 225, 1},
		{"binance-2024-08-08/spot_ethusdt_20240808.gz", 5579, 5578, 1},
		{"exchange-frames/BINANCE.http.0.0.gz", 4, 4, 4},
		{"exchange-frames/BINANCE.ws.1.0.gz", 265, 265, 4},
		{"exchange-frames/BITMEX.ws.1.0.gz", 786, 755, 10},
		{"exchange-frames/BITSTAMP.ws.1.0.gz", 747, 727, 9},
		{"exchange-frames/COINBASE.ws.28.0.gz", 787, 784, 10},
		{"exchange-frames/KRAKEN.ws.48.0", 49, 8, 2},
		{"exchange-frames/KRAKEN.ws.49.0.gz", 60, 18, 10},
		{"exchange-frames/KRAKEN.ws.50.0.gz", 788, 769, 10},
		{"exchange-frames/KRAKEN_FUTURES.ws.1.0.gz", 783, 752, 10},
		{"exchange-frames/KUCOIN.ws.1.0.gz", 786, 772, 9},
	}
	full = []file{
		{"binance-2024-08-08/cm_btcusd_perp_20240808.gz", 48270, 48270, 1},
		{"binance-2024-08-08/spot_btcusdt_20240808.gz", 41249, 41248, 1},
		{"binance-2024-08-08/spot_btcusdt_20240809.gz", 58325, 58325, 1},
		{"binance-2024-08-08/spot_ethusdt_20240808.gz", 33618, 33617, 1},
		{"binance-2024-08-08/spot_ethusdt_20240809.gz", 46126, 46126, 1},
		{"binance-2024-08-08/usdm_btcusdt_20240808.gz", 93954, 93953, 1},
		{"binance-2024-08-08/usdm_ethusdt_20240808.gz", 74655, 74654, 1},
		{"exchange-frames/BINANCE.http.0.0.gz", 4, 4, 4},
		{"exchange-frames/BINANCE.ws.1.0.gz", 265, 265, 4},
		{"exchange-frames/BINANCE_DELIVERY.http.0.0.gz", 10, 10, 10},
		{"exchange-frames/BINANCE_DELIVERY.ws.1.0.gz", 4371, 4371, 10},
		{"exchange-frames/BINANCE_FUTURES.http.0.0.gz", 4, 4, 4},
		{"exchange-frames/BINANCE_FUTURES.ws.1.0.gz", 1535, 1535, 4},
		{"exchange-frames/BITMEX.ws.1.0.gz", 2120, 2089, 10},
		{"exchange-frames/BITSTAMP.http.0.0.gz", 10, 10, 10},
		{"exchange-frames/BITSTAMP.ws.1.0.gz", 747, 727, 9},
		{"exchange-frames/COINBASE.ws.28.0.gz", 9946, 9943, 10},
		{"exchange-frames/KRAKEN.ws.48.0.gz", 49, 8, 2},
		{"exchange-frames/KRAKEN.ws.49.0.gz", 60, 18, 10},
		{"exchange-frames/KRAKEN.ws.50.0.gz", 4321, 4279, 10},
		{"exchange-frames/KRAKEN_FUTURES.ws.1.0.gz", 7175, 7144, 10},
		{"exchange-frames/KUCOIN.http.0.0.gz", 9, 9, 9},
		{"exchange-frames/KUCOIN.ws.1.0.gz", 4721, 4707, 9},
	}
)

const cutFolder = "../../../../testdata"

// TestRecordings reads real recordings: the excerpts in the repository, and the full recordings if SLUICE_DATA names their folder.
func TestRecordings(t *testing.T) {
	for _, f := range cut {
		t.Run(f.name, func(t *testing.T) { checkFile(t, cutFolder, f) })
	}
	if folder := os.Getenv("SLUICE_DATA"); folder != "" {
		for _, f := range full {
			t.Run("full/"+f.name, func(t *testing.T) { checkFile(t, folder, f) })
		}
	}
}

func checkFile(t *testing.T, folder string, want file) {
	r, err := recording.Open(filepath.Join(folder, filepath.FromSlash(want.name)), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	got := file{name: want.name}
	symbols := map[string]int{}
	var last int64
	longest := 0
	for {
		f, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got.frames++
		longest = max(longest, len(f.Data))
		if f.Symbol != "" {
			got.named++
			symbols[f.Symbol]++
		}
		if f.Time < last {
			t.Errorf("line %d: time goes back from %d to %d", f.Line, last, f.Time)
		}
		last = f.Time
	}
	got.symbols = len(symbols)
	t.Logf("%d frames, %d of %d symbols, longest %d bytes", got.frames, got.named, got.symbols, longest)
	if got != want {
		t.Errorf("got %+v, want %+v; symbols %v", got, want, symbols)
	}
	if read, total := r.Progress(); read != total || total == 0 {
		t.Errorf("after the end %d of %d bytes are read", read, total)
	}
}
