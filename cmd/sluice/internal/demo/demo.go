// Package demo generates market data: a random walk of 50 symbols. It lets a fresh installation show something without a data file. The data is
// the same for the same seed on every machine, because all arithmetic is on integers.
//
// Prices are geometric random walks, and each symbol has its own volatility. A weak pull towards the opening price keeps prices in range for
// weeks. About 100 ticks a second are distributed over the symbols by Zipf's law: the busiest symbol has about 22 of them, the quietest one
// every two seconds. The names are invented.
package demo

import (
	"math/bits"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	meanGap    = 10 * time.Millisecond // between two ticks
	maxBacklog = time.Second           // after a longer gap, older ticks are skipped
	maxStep    = 1000                  // ticks returned by one step

	micro     = 1_000_000 // prices are in millionths
	hundredth = micro / 100
	reversion = 4096 // each tick moves the price back by 1/reversion of its distance from the opening price
	sigma     = 1024 // the standard deviation of normal
)

// names are the symbols. They have five letters, because most tickers in the world are shorter.
var names = strings.Fields(`
	ALVOR ARDIN BELKO BRENO CARDU CELVA DOLVA DRUMO ELQIN ERVAN
	FARNO FILVA GELTA GRAVO HALDI HUVEN IRMEL IZOLD JARVO JUNVA
	KESTO KORVA LORVA LUMIR MANQO MIRQA NELTO NOVUQ OLDRA ORVIN
	PELVO PRISA QUALO QUOLT RASVI ROLVA SELQO SORVI TARVO TULMA
	ULMEN URVAN VANDO VELQI WALDU WEXLA XANTO XORIL YSTRA ZEPHO`)

// Tick is one change of one symbol.
type Tick struct {
	Symbol string
	Price  int64 // in hundredths, at least 1
	Change int64 // since the opening, in hundredths of a percent
	Volume int64 // units traded since the opening; it never falls
	Time   time.Time
}

// AppendJSON appends the tick as a JSON object without white space, and returns the extended slice. Price and change have two decimals, time is
// in Unix milliseconds:
//
//	{"symbol":"ALVOR","price":61.20,"change":-0.37,"volume":1200,"time":1723161253937}
func (t Tick) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"symbol":"`...)
	dst = append(dst, t.Symbol...) // one of names, so no escaping is needed
	dst = append(dst, `","price":`...)
	dst = appendHundredths(dst, t.Price)
	dst = append(dst, `,"change":`...)
	dst = appendHundredths(dst, t.Change)
	dst = append(dst, `,"volume":`...)
	dst = strconv.AppendInt(dst, t.Volume, 10)
	dst = append(dst, `,"time":`...)
	dst = strconv.AppendInt(dst, t.Time.UnixMilli(), 10)
	return append(dst, '}')
}

func appendHundredths(dst []byte, v int64) []byte {
	if v < 0 {
		dst = append(dst, '-')
		v = -v
	}
	dst = strconv.AppendInt(dst, v/100, 10)
	return append(dst, '.', byte('0'+v/10%10), byte('0'+v%10))
}

// symbol is the state of one symbol's random walk.
type symbol struct {
	name       string
	open       int64 // price in millionths
	price      int64
	volume     int64
	volatility int64 // standard deviation of one tick, in millionths of the price
}

// Feed generates ticks. It must not be used concurrently, except for Stats.
type Feed struct {
	random  *rand.PCG
	symbols []symbol // the busiest first
	weights []uint64 // cumulative, by symbol
	started bool
	next    time.Time // time of the next tick
	ticks   []Tick    // result of the last Step
	counters
}

// New returns a feed that has not started yet. The same seed and the same times give the same ticks.
func New(seed uint64) *Feed {
	f := &Feed{random: rand.NewPCG(seed, 0x51f15eed)}
	f.symbols = make([]symbol, len(names))
	f.weights = make([]uint64, len(names))
	var sum uint64
	for i := range f.symbols {
		// The opening price is between 20 and 1280, and below 160 with probability 1/2. The volatility is 0.02 % to 0.15 % a tick.
		open := int64(20*micro+f.uint64N(20*micro)) << f.uint64N(6)
		f.symbols[i] = symbol{name: names[i], open: open, price: open, volatility: 200 + int64(f.uint64N(1300))}
		sum += micro / uint64(i+1)
		f.weights[i] = sum
	}
	for i := len(f.symbols) - 1; i > 0; i-- { // shuffle, so that different seeds have different busy symbols
		j := f.uint64N(uint64(i + 1))
		f.symbols[i], f.symbols[j] = f.symbols[j], f.symbols[i]
	}
	return f
}

// Symbols returns the names of all symbols, sorted.
func (f *Feed) Symbols() []string { return slices.Clone(names) }

// Step returns the ticks up to and including now, in the order of their times. The first step returns the opening: one tick for every symbol. A
// step returns at most 1000 ticks, and the next step returns the rest. After a gap of more than a second, only the ticks of the last second are
// returned. The slice is valid until the next step.
func (f *Feed) Step(now time.Time) []Tick {
	f.ticks = f.ticks[:0]
	if !f.started {
		f.started = true
		for i := range f.symbols {
			f.ticks = append(f.ticks, f.symbols[i].tick(now))
		}
		f.next = now.Add(f.gap())
		return f.ticks
	}
	if oldest := now.Add(-maxBacklog); f.next.Before(oldest) {
		f.next = oldest
	}
	for !f.next.After(now) && len(f.ticks) < maxStep {
		s := &f.symbols[f.pick()]
		s.walk(f.normal(), 10+10*int64(f.uint64N(20)))
		f.ticks = append(f.ticks, s.tick(f.next))
		f.next = f.next.Add(f.gap())
	}
	return f.ticks
}

// walk moves the price by z/sigma standard deviations, and adds the traded units to the volume.
func (s *symbol) walk(z, units int64) {
	s.price += s.price * s.volatility * z / (micro * sigma)
	s.price += (s.open - s.price) / reversion
	s.price = min(max(s.price, s.open/4), s.open*4)
	s.volume += units
}

func (s *symbol) tick(at time.Time) Tick {
	price := (s.price + hundredth/2) / hundredth
	return Tick{
		Symbol: s.name,
		Price:  price,
		Change: (s.price - s.open) * 100 * 100 / s.open,
		Volume: s.volume,
		Time:   at,
	}
}

// pick returns the index of a random symbol. Lower indexes are more likely.
func (f *Feed) pick() int {
	at := f.uint64N(f.weights[len(f.weights)-1]) + 1
	i, _ := slices.BinarySearch(f.weights, at)
	return i
}

// gap returns the random time between two ticks.
func (f *Feed) gap() time.Duration { return time.Duration(f.uint64N(uint64(2 * meanGap))) }

// normal returns an approximately normally distributed number, with mean 0 and standard deviation sigma: the sum of twelve uniform numbers of
// ten bits.
func (f *Feed) normal() int64 {
	sum := int64(-12 * sigma / 2)
	for range 2 {
		b := f.random.Uint64()
		for range 6 {
			sum += int64(b % sigma)
			b /= sigma
		}
	}
	return sum + 6 // the mean of 0 … 1023 is 511.5
}

// uint64N returns a random number in [0, n). It takes the high half of a product. The methods of rand.Rand are no alternative, because their
// numbers may change with a release of Go.
func (f *Feed) uint64N(n uint64) uint64 {
	hi, _ := bits.Mul64(f.random.Uint64(), n)
	return hi
}
