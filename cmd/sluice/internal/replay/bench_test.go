package replay_test

import (
	"context"
	"testing"

	"github.com/sluice-push/sluice/cmd/sluice/internal/replay"
)

// nowhere is a publisher that accepts everything at once.
type nowhere struct{}

func (nowhere) Publish(context.Context, replay.Publication) error { return nil }

// BenchmarkRun measures the cost of a replay without publishing: two recordings, merged, hashed, over all workers.
func BenchmarkRun(b *testing.B) {
	b.ReportAllocs()
	var frames int64
	for b.Loop() {
		sum, err := replay.Run(b.Context(), replay.Options{
			Files: []string{
				"../../../../testdata/binance-2024-08-08/spot_btcusdt_20240808.gz",
				"../../../../testdata/binance-2024-08-08/spot_ethusdt_20240808.gz",
			},
			Publisher: nowhere{}, Channel: "ticks:{symbol}", Speed: replay.Max,
		})
		if err != nil {
			b.Fatal(err)
		}
		frames += sum.Published
	}
	b.ReportMetric(float64(frames)/b.Elapsed().Seconds(), "frames/s")
}
