package recording_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/sluice-push/sluice/cmd/sluice/internal/recording"
)

// BenchmarkNext reads the stamped recording of the repository, compressed and decompressed.
func BenchmarkNext(b *testing.B) {
	packed, err := os.ReadFile(filepath.Join(cutFolder, "binance-2024-08-08", "spot_btcusdt_20240808.gz"))
	if err != nil {
		b.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		b.Fatal(err)
	}
	plain, err := io.ReadAll(z)
	if err != nil {
		b.Fatal(err)
	}
	for name, file := range map[string][]byte{"gzip": packed, "plain": plain} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(plain)))
			frames := 0
			for b.Loop() {
				r := recording.NewReader(bytes.NewReader(file), name, nil)
				for {
					_, err := r.Next()
					if errors.Is(err, io.EOF) {
						break
					}
					if err != nil {
						b.Fatal(err)
					}
					frames++
				}
			}
			b.ReportMetric(float64(frames)/b.Elapsed().Seconds(), "frames/s")
		})
	}
}
