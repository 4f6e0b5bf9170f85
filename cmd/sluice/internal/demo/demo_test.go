package demo_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-push/sluice/cmd/sluice/internal/demo"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var start = time.UnixMilli(1723161253937)

// steps runs a feed for a time in steps, and calls see with each tick.
func steps(f *demo.Feed, step, total time.Duration, see func(demo.Tick)) {
	for at := time.Duration(0); at <= total; at += step {
		for _, t := range f.Step(start.Add(at)) {
			see(t)
		}
	}
}

func lines(seed uint64, step time.Duration) string {
	var b []byte
	steps(demo.New(seed), step, 10*time.Second, func(t demo.Tick) { b = append(t.AppendJSON(b), '\n') })
	return string(b)
}

// TestGolden: the ticks of seed 1 do not change.
func TestGolden(t *testing.T) {
	all := lines(1, 50*time.Millisecond)
	list := strings.Split(all, "\n")
	want := []string{
		`{"symbol":"TULMA","price":519.36,"change":0.00,"volume":0,"time":1723161253937}`,
		`{"symbol":"GELTA","price":30.45,"change":0.00,"volume":0,"time":1723161253937}`,
		`{"symbol":"ALVOR","price":38.44,"change":-0.12,"volume":90,"time":1723161253942}`,
		`{"symbol":"WALDU","price":1135.62,"change":-0.04,"volume":70,"time":1723161253947}`,
		`{"symbol":"OLDRA","price":45.11,"change":-0.01,"volume":120,"time":1723161253954}`,
		`{"symbol":"GELTA","price":30.47,"change":0.06,"volume":70,"time":1723161253956}`,
		`{"symbol":"IRMEL","price":62.94,"change":0.00,"volume":50,"time":1723161253962}`,
	}
	if got := append(list[:2:2], list[50:55]...); !slices.Equal(got, want) {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
	sum := sha256.Sum256([]byte(all))
	if got := hex.EncodeToString(sum[:]); got != "4ec37d2f1aa8dd7a02469c91f6010ff7e02b07e555b7e4c03f0e5c603ee3d6e4" {
		t.Errorf("ten seconds have hash %s", got)
	}
}

func TestDeterministic(t *testing.T) {
	seven := lines(7, 50*time.Millisecond)
	if again := lines(7, 50*time.Millisecond); again != seven {
		t.Error("the same seed gives two feeds")
	}
	if finer := lines(7, 10*time.Millisecond); finer != seven {
		t.Error("the steps make a difference")
	}
	if lines(8, 50*time.Millisecond) == seven {
		t.Error("two seeds give the same feed")
	}
}

// TestShape runs five feeds for an hour. Rates, distribution over the symbols, prices and volumes are as the package comment says.
func TestShape(t *testing.T) {
	for seed := range uint64(5) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			f := demo.New(seed)
			symbols := f.Symbols()
			if !slices.IsSorted(symbols) || len(slices.Compact(slices.Clone(symbols))) != 50 {
				t.Errorf("symbols %v", symbols)
			}
			total, moved := 0, 0
			count := map[string]int{}
			first, last := map[string]demo.Tick{}, map[string]demo.Tick{}
			before := start
			steps(f, 50*time.Millisecond, time.Hour, func(k demo.Tick) {
				total++
				count[k.Symbol]++
				prev, known := last[k.Symbol]
				if !known {
					first[k.Symbol] = k
				} else if k.Volume <= prev.Volume {
					t.Errorf("volume of %s went from %d to %d", k.Symbol, prev.Volume, k.Volume)
				}
				if k.Price != prev.Price {
					moved++
				}
				if open := first[k.Symbol].Price; k.Price < open/4 || k.Price > open*4 || k.Price < 1 {
					t.Errorf("%s went from %d to %d", k.Symbol, open, k.Price)
				}
				if k.Time.Before(before) {
					t.Errorf("time went from %v to %v", before, k.Time)
				}
				last[k.Symbol], before = k, k.Time
			})
			if perSecond := float64(total) / 3600; perSecond < 98 || perSecond > 102 {
				t.Errorf("%.1f ticks a second", perSecond)
			}
			var counts []int
			for _, name := range symbols {
				counts = append(counts, count[name])
			}
			slices.Sort(counts)
			if hot, cold := float64(counts[49])/3600, float64(counts[0])/3600; len(count) != 50 || hot < 20 || hot > 24 || cold < 0.3 || cold > 0.6 {
				t.Errorf("the busiest of %d has %.2f ticks a second, the quietest %.2f", len(count), hot, cold)
			}
			if float64(moved) < 0.8*float64(total) {
				t.Errorf("only %d of %d ticks change the price", moved, total)
			}
			for name, k := range last {
				if want := float64(k.Price-first[name].Price) * 1e4 / float64(first[name].Price); want-float64(k.Change) > 5 || want-float64(k.Change) < -5 {
					t.Errorf("%s went from %d to %d and says %d", name, first[name].Price, k.Price, k.Change)
				}
			}
		})
	}
}

func TestStep(t *testing.T) {
	f := demo.New(1)
	opening := f.Step(start)
	var names []string
	for _, k := range opening {
		names = append(names, k.Symbol)
		if k.Change != 0 || k.Volume != 0 || !k.Time.Equal(start) {
			t.Errorf("%+v at the opening", k)
		}
	}
	if slices.Sort(names); !slices.Equal(names, f.Symbols()) {
		t.Errorf("at the opening came %v", names)
	}
	if n := len(f.Step(start)); n != 0 {
		t.Errorf("%d ticks at the same time again", n)
	}
	if n := len(f.Step(start.Add(-time.Hour))); n != 0 {
		t.Errorf("%d ticks in the past", n)
	}
	late := f.Step(start.Add(24 * time.Hour))
	if len(late) < 70 || len(late) > 130 || late[0].Time.Before(start.Add(24*time.Hour-time.Second)) {
		t.Errorf("%d ticks after a silence, from %v on", len(late), late[0].Time)
	}
}

func TestAppendJSON(t *testing.T) {
	at := time.UnixMilli(1723161253937)
	tests := []struct {
		tick demo.Tick
		want string
	}{
		{demo.Tick{Symbol: "ALVOR", Price: 6120, Change: -37, Volume: 1200, Time: at}, `{"symbol":"ALVOR","price":61.20,"change":-0.37,"volume":1200,"time":1723161253937}`},
		{demo.Tick{Symbol: "ZEPHO", Price: 1, Change: 0, Volume: 0, Time: at}, `{"symbol":"ZEPHO","price":0.01,"change":0.00,"volume":0,"time":1723161253937}`},
		{demo.Tick{Symbol: "ZEPHO", Price: 100, Change: -100, Volume: 1, Time: at}, `{"symbol":"ZEPHO","price":1.00,"change":-1.00,"volume":1,"time":1723161253937}`},
		{demo.Tick{Symbol: "ZEPHO", Price: 123456, Change: 1205, Volume: 1, Time: at}, `{"symbol":"ZEPHO","price":1234.56,"change":12.05,"volume":1,"time":1723161253937}`},
	}
	for _, tt := range tests {
		got := string(tt.tick.AppendJSON([]byte("x")))
		if got != "x"+tt.want || !json.Valid([]byte(got[1:])) {
			t.Errorf("got %s, want x%s", got, tt.want)
		}
	}
}

func BenchmarkStep(b *testing.B) {
	b.ReportAllocs()
	f := demo.New(1)
	at := start
	n := 0
	var buf []byte
	for b.Loop() {
		at = at.Add(50 * time.Millisecond)
		for _, t := range f.Step(at) {
			buf = t.AppendJSON(buf[:0])
			n++
		}
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "ticks/s")
}
