package channel_test

import (
	"runtime"
	"strconv"
	"testing"
	"time"
	"unsafe"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/channel"
)

// TestCursorSize: a Cursor has at most 48 bytes.
func TestCursorSize(t *testing.T) {
	if size := unsafe.Sizeof(channel.Cursor{}); size > 48 {
		t.Errorf("a cursor takes %d bytes, at most 48 are allowed", size)
	}
}

// live returns a log in which the given number of cursors have read everything.
func live(mode push.Mode, cursors int) (*channel.Log, []channel.Cursor) {
	log := channel.New(&channel.Policy{Mode: mode, History: push.History{Size: 100}}, push.Position{Epoch: "e"}, 0)
	out := make([]channel.Cursor, cursors)
	for i := range out {
		out[i], _ = log.Subscribe(nil, nil)
	}
	return log, out
}

// BenchmarkReadNext appends an entry and serves it, by ReadNext, to 1,000 cursors that are up to date.
func BenchmarkReadNext(b *testing.B) {
	for _, mode := range modes {
		b.Run(mode.String(), func(b *testing.B) {
			log, cursors := live(mode, 1000)
			data := []byte(`{"price":"1.00"}`)
			var offset uint64
			b.ReportAllocs()
			for b.Loop() {
				offset++
				e := log.Append(push.Publication{Offset: offset, Key: "k", Data: data})
				for i := range cursors {
					d, ok := log.ReadNext(cursors[i], nil, e)
					if !ok {
						b.Fatal("not right behind")
					}
					cursors[i] = d.Next
				}
			}
		})
	}
}

// BenchmarkRead is BenchmarkReadNext with Read, as for cursors that are not right behind.
func BenchmarkRead(b *testing.B) {
	for _, mode := range modes {
		b.Run(mode.String(), func(b *testing.B) {
			log, cursors := live(mode, 1000)
			data := []byte(`{"price":"1.00"}`)
			out := make([]channel.Delivery, 0, 16)
			var offset uint64
			b.ReportAllocs()
			for b.Loop() {
				offset++
				log.Append(push.Publication{Offset: offset, Key: "k", Data: data})
				for i := range cursors {
					out, cursors[i], _ = log.Read(cursors[i], nil, channel.Budget{Entries: 16, Bytes: 65536}, out[:0])
				}
			}
		})
	}
}

// TestReadAllocates checks that neither Read nor ReadNext allocates for each cursor.
func TestReadAllocates(t *testing.T) {
	for _, mode := range modes {
		log, cursors := live(mode, 1000)
		out := make([]channel.Delivery, 0, 16)
		var offset uint64
		allocs := testing.AllocsPerRun(100, func() {
			offset++
			e := log.Append(push.Publication{Offset: offset, Key: "k"})
			for i := range cursors {
				if d, ok := log.ReadNext(cursors[i], nil, e); ok && i%2 == 0 {
					cursors[i] = d.Next
					continue
				}
				out, cursors[i], _ = log.Read(cursors[i], nil, channel.Budget{Entries: 16, Bytes: 65536}, out[:0])
			}
		})
		if allocs > 4 { // the entry, and now and then a larger slice or map
			t.Errorf("%v: %v allocations for one entry and 1,000 cursors", mode, allocs)
		}
	}
}

// BenchmarkIdleValue measures the memory of a value channel with a row of 64 bytes and one subscription, at a million of them.
func BenchmarkIdleValue(b *testing.B) {
	type idle struct {
		log    *channel.Log
		cursor channel.Cursor
	}
	const n = 1_000_000
	policy := &channel.Policy{Mode: push.Value}
	for b.Loop() {
		before := heap()
		start := time.Now()
		channels := make([]idle, n)
		for i := range channels {
			log := channel.New(policy, push.Position{Epoch: "e"}, 0)
			log.Append(push.Publication{Offset: uint64(i) + 1, Data: make([]byte, 64)})
			cursor, _ := log.Subscribe(nil, nil)
			channels[i] = idle{log, cursor}
		}
		b.ReportMetric(time.Since(start).Seconds()*1e9/n, "ns/channel")
		b.ReportMetric(float64(heap()-before)/n, "B/channel")
		runtime.KeepAlive(channels)
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkTable changes rows in turn, and sweeps with a reader of 100 rows at a time.
func BenchmarkTable(b *testing.B) {
	const rows = 10_000
	policy := &channel.Policy{Mode: push.Table}
	log := channel.New(policy, push.Position{Epoch: "e"}, 0)
	keys := make([]string, rows)
	for i := range keys {
		keys[i] = "row" + strconv.Itoa(i)
	}
	var offset uint64
	put := func() {
		offset++
		log.Append(push.Publication{Offset: offset, Key: keys[offset%rows]})
	}
	for range rows {
		put()
	}
	b.Run("append", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			put()
		}
	})
	b.Run("sweep", func(b *testing.B) {
		out := make([]channel.Delivery, 0, 128)
		b.ReportAllocs()
		for b.Loop() {
			cursor, _ := log.Subscribe(nil, nil)
			status := channel.More
			for status == channel.More {
				out, cursor, status = log.Read(cursor, nil, channel.Budget{Entries: 100, Bytes: 1 << 20}, out[:0])
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/rows, "ns/row")
	})
}
