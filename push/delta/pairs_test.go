package delta_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
)

// pair is an old and a new value.
type pair struct{ from, to []byte }

// makers make pairs of many kinds, by name, always the same for the same numbers.
var makers = []struct {
	name string
	make func(r *rand.Rand) pair
}{
	{"noise", func(r *rand.Rand) pair { return pair{noise(r, r.IntN(300)), noise(r, r.IntN(300))} }},
	{"edited noise", func(r *rand.Rand) pair { from := noise(r, r.IntN(5000)); return pair{from, edited(r, from, 256)} }},
	{"few letters", func(r *rand.Rand) pair { return pair{letters(r, r.IntN(400), 2), letters(r, r.IntN(400), 2)} }},
	{"edited letters", func(r *rand.Rand) pair { from := letters(r, r.IntN(3000), 3); return pair{from, edited(r, from, 3)} }},
	{"repeated", func(r *rand.Rand) pair {
		unit := noise(r, 1+r.IntN(40))
		return pair{edited(r, bytes.Repeat(unit, r.IntN(60)), 4), edited(r, bytes.Repeat(unit, r.IntN(60)), 4)}
	}},
	{"characters", func(r *rand.Rand) pair {
		from := prose(r, r.IntN(200))
		return pair{[]byte(from), []byte(reworded(r, from))}
	}},
	{"tick", func(r *rand.Rand) pair { return pair{tick(r), tick(r)} }},
	{"book", func(r *rand.Rand) pair {
		b := newBook(r, 1+r.IntN(60))
		from := b.json()
		b.move(r, r.IntN(20))
		return pair{from, b.json()}
	}},
	{"moved", func(r *rand.Rand) pair {
		a, b, c := noise(r, r.IntN(2000)), noise(r, r.IntN(2000)), noise(r, r.IntN(50))
		return pair{join(a, b), join(b, c, a)}
	}},
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 42)) }

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

func noise(r *rand.Rand, n int) []byte { return letters(r, n, 256) }

// letters returns n bytes from an alphabet of the given size.
func letters(r *rand.Rand, n, kinds int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.IntN(kinds))
	}
	return b
}

// edited returns b with a few parts removed, inserted and replaced.
func edited(r *rand.Rand, b []byte, kinds int) []byte {
	b = bytes.Clone(b)
	for range r.IntN(6) {
		at := r.IntN(len(b) + 1)
		end := min(at+r.IntN(40), len(b))
		switch r.IntN(3) {
		case 0:
			b = join(b[:at], b[end:])
		case 1:
			b = join(b[:at], letters(r, r.IntN(40), kinds), b[at:])
		default:
			copy(b[at:end], letters(r, end-at, kinds))
		}
	}
	return b
}

// prose returns words with characters of one to four bytes.
func prose(r *rand.Rand, words int) string {
	all := []string{"tide", "Flöße", "水門", "ぬるい", "🌊🌊", "é", "ÿ", "𝒳y", "шлюз", "0123456789abcdef"}
	var s strings.Builder
	for range words {
		s.WriteString(all[r.IntN(len(all))])
		s.WriteByte(' ')
	}
	return s.String()
}

// reworded changes characters, mostly to ones that begin or end with the same byte.
func reworded(r *rand.Rand, s string) string {
	chars := []rune(s)
	for range r.IntN(5) {
		if len(chars) > 0 {
			chars[r.IntN(len(chars))] += rune(r.IntN(3))
		}
	}
	return string(chars)
}

// tick returns a quote as exchanges publish it.
func tick(r *rand.Rand) []byte {
	return fmt.Appendf(nil, `{"e":"bookTicker","s":"BTCUSDT","u":%d,"b":"%.8f","B":"%.8f","a":"%.8f","A":"%.8f","T":%d,"E":%d,"ps":"XBT"}`,
		400900217+r.IntN(1000), 25+r.Float64(), 31*r.Float64(), 26+r.Float64(), 100*r.Float64(),
		1568014460893+r.Int64N(100_000), 1568014460891+r.Int64N(100_000))
}

// book is an order book: price levels and amounts on two sides.
type book struct{ bids, asks [][2]int }

func newBook(r *rand.Rand, levels int) *book {
	b := &book{}
	for i := range levels {
		b.bids = append(b.bids, [2]int{50_000 - i, r.IntN(100_000)})
		b.asks = append(b.asks, [2]int{50_001 + i, r.IntN(100_000)})
	}
	return b
}

// move changes some amounts, and sometimes removes a level and adds one.
func (b *book) move(r *rand.Rand, changes int) {
	for range changes {
		side := &b.bids
		if r.IntN(2) == 0 {
			side = &b.asks
		}
		i := r.IntN(len(*side))
		if (*side)[i][1] = r.IntN(100_000); r.IntN(4) == 0 {
			*side = append((*side)[:i:i], append((*side)[i+1:], [2]int{r.IntN(100_000), 7})...)
		}
	}
}

func (b *book) json() []byte {
	side := func(levels [][2]int) string {
		var s []string
		for _, l := range levels {
			s = append(s, fmt.Sprintf(`["%d.%02d","%d.%03d"]`, l[0]/100, l[0]%100, l[1]/1000, l[1]%1000))
		}
		return strings.Join(s, ",")
	}
	return fmt.Appendf(nil, `{"lastUpdateId":%d,"bids":[%s],"asks":[%s]}`, 1027024+len(b.bids), side(b.bids), side(b.asks))
}

// row4K returns a table row of 4 KiB, of which one member changes.
func row4K() pair {
	row := func(price string) []byte {
		var s strings.Builder
		for i := range 100 {
			if s.Len() > 0 {
				s.WriteByte(',')
			}
			if i == 60 {
				fmt.Fprintf(&s, `"price":%s`, price)
				continue
			}
			fmt.Fprintf(&s, `"field%02d":{"text":"value %d","n":%d.5}`, i, i*7919, i)
		}
		return []byte("{" + s.String() + "}")
	}
	return pair{row("101.25"), row("101.5")}
}
