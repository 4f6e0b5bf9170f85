package splice_test

import (
	"fmt"
	"io"
	"math"
	"net"
	"syscall"
	"testing"

	"github.com/sluice-push/sluice/splice"
)

// BenchmarkMove compares transfers of one size: spliced, copied through a buffer, and with io.CopyN of the standard library, which splices to TCP.
// CPU-s/GiB is the time of the whole process, which also feeds the source and empties the destination.
func BenchmarkMove(b *testing.B) {
	spliced, copied := splice.New(&splice.Options{Threshold: -1}), splice.New(&splice.Options{Threshold: math.MaxInt64})
	defer spliced.Close()
	defer copied.Close()
	ways := []struct {
		name string
		move func(dst, src net.Conn, n int64) (int64, error)
	}{
		{"splice", func(dst, src net.Conn, n int64) (int64, error) { return spliced.Move(dst, src, nil, n) }},
		{"copy", func(dst, src net.Conn, n int64) (int64, error) { return copied.Move(dst, src, nil, n) }},
		{"io.CopyN", func(dst, src net.Conn, n int64) (int64, error) { return io.CopyN(dst, src, n) }},
	}
	for _, networks := range [][2]string{{"tcp", "tcp"}, {"tcp", "unix"}, {"unix", "tcp"}, {"unix", "unix"}} {
		for _, size := range []int64{4 << 10, 16 << 10, 32 << 10, 64 << 10, 256 << 10, 1 << 20} {
			for _, way := range ways {
				b.Run(fmt.Sprintf("%s-%s/%dK/%s", networks[0], networks[1], size>>10, way.name), func(b *testing.B) {
					benchmarkMove(b, networks, size, way.move)
				})
			}
		}
	}
}

func benchmarkMove(b *testing.B, networks [2]string, size int64, move func(dst, src net.Conn, n int64) (int64, error)) {
	feeder, src := pair(b, networks[0])
	dst, drain := pair(b, networks[1])
	drained := make(chan error, 1)
	go func() {
		_, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{drain}, make([]byte, 256<<10))
		drained <- err
	}()
	go func() {
		for chunk := make([]byte, size); ; {
			if _, err := feeder.Write(chunk); err != nil {
				return // the benchmark has closed src
			}
		}
	}()
	b.SetBytes(size)
	b.ReportAllocs()
	before := cpu(b)
	for b.Loop() {
		if n, err := move(dst, src, size); n != size || err != nil {
			b.Fatal(n, err)
		}
	}
	b.ReportMetric((cpu(b)-before)*(1<<30)/float64(size)/float64(b.N), "CPU-s/GiB")
	_ = src.Close()
	_ = dst.Close()
	if err := <-drained; err != nil {
		b.Fatal(err)
	}
}

// cpu returns the seconds of CPU that this process has used.
func cpu(b *testing.B) float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
}
