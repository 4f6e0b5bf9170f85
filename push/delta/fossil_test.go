package delta_test

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sluice-push/sluice/push/delta"
)

// longest returns the largest size of a Fossil delta to n bytes.
func longest(n int) int { return n + 21 + 4*(n>>15) }

// sum returns the checksum of section 2.2, computed digit by digit in base 256.
func sum(b []byte) string {
	var total uint64
	for i, c := range b {
		total += uint64(c) << (24 - i%4*8)
	}
	return number(total % (1 << 32))
}

// number writes n as section 3.0 defines it.
func number(n uint64) string {
	const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz~"
	if n < 64 {
		return digits[n : n+1]
	}
	return number(n/64) + digits[n%64:n%64+1]
}

// The delta is the example in section 4.2 of the format's document. The document does not print its values, so the test applies it to others.
func TestApplyFossilDocumentExample(t *testing.T) {
	const segments = "1Xb\n" + "4E@0,2:thFN@4C,6:scenda1B@Jd,6:scenda5x@Kt,6:pieces79@Qt,F: Example: eskil~E@Y0,"
	from := noise(newRand(1), 2176+4046)
	to := join(from[:270], []byte("th"), from[268:268+983], []byte("scenda"), from[1256:1256+75], []byte("scenda"),
		from[1336:1336+380], []byte("pieces"), from[1720:1720+457], []byte(" Example: eskil"), from[2176:2176+4046])
	got, err := delta.ApplyFossil(nil, from, []byte(segments+sum(to)+";"), 6246)
	if err != nil || !bytes.Equal(got, to) {
		t.Errorf("%d bytes, %v; %d bytes are expected", len(got), err, len(to))
	}
	if _, err := delta.ApplyFossil(nil, from, []byte(segments+"2zMM3E;"), 6246); !errors.Is(err, delta.ErrOtherBase) {
		t.Errorf("with the checksum of the document the error is %v", err)
	}
}

// Deltas written by hand, which the encoder finds as well.
func TestFossilByHand(t *testing.T) {
	const fox = "The quick brown fox jumps over the lazy dog"
	for _, tt := range []struct{ name, from, to, delta string }{
		{"both empty", "", "", "0\n0;"},
		{"to nothing", fox, "", "0\n0;"},
		{"a checksum of more than 32 bits", "", "\xff\xff\xff\xff\x00\x00\x00\x02", "8\n8:\xff\xff\xff\xff\x00\x00\x00\x021;"},
		{"from nothing", "", "abc", "3\n3:abc1XObC0;"},
		{"nothing in common", "xyz", "abc", "3\n3:abc1XObC0;"},
		{"the same", fox, fox, "g\ng@0," + sum([]byte(fox)) + ";"},
		{"too little in common", "ab-----", "ab+++++", "7\n7:ab+++++" + sum([]byte("ab+++++")) + ";"},
		{
			"a word replaced", fox, strings.Replace(fox, "fox", "cat", 1),
			"g\nG@0,3:catO@J," + sum([]byte(strings.Replace(fox, "fox", "cat", 1))) + ";",
		},
		{"appended", fox, fox + "!", "h\ng@0,1:!" + sum([]byte(fox+"!")) + ";"},
		{"cut", fox, fox[:30], "U\nU@0," + sum([]byte(fox[:30])) + ";"},
		{"put before", fox, "So: " + fox, "k\n4:So: g@0," + sum([]byte("So: "+fox)) + ";"},
		{"the middle found by its blocks", fox, "(" + fox + ")", "i\n1:(g@0,1:)" + sum([]byte("("+fox+")")) + ";"},
		{
			"in line, with other numbers", "[1,\"abcdefghijkl\",2]", "[8,\"abcdefghijkl\",9]",
			"K\n2:[8G@2,2:9]" + sum([]byte("[8,\"abcdefghijkl\",9]")) + ";",
		},
		{
			"in line with what was copied before", `[1,"abcdefghijkl",2]`, `[8,"abcdefghijkl",999]`,
			"M\n2:[8G@2,4:999]" + sum([]byte(`[8,"abcdefghijkl",999]`)) + ";",
		},
		{
			"in line with the end", `[1,"abcdefghijkl",2]`, `[888,"abcdefghijkl",9]`,
			"M\n4:[888G@2,2:9]" + sum([]byte(`[888,"abcdefghijkl",9]`)) + ";",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var e delta.Encoder
			if got := e.AppendFossil([]byte("before "), []byte(tt.from), []byte(tt.to)); string(got) != "before "+tt.delta {
				t.Errorf("the delta is %q, %q is expected", got, tt.delta)
			}
			got, err := delta.ApplyFossil([]byte("before "), []byte(tt.from), []byte(tt.delta), len(tt.to))
			if err != nil || string(got) != "before "+tt.to {
				t.Errorf("applied it is %q, %v", got, err)
			}
		})
	}
}

// Valid deltas that this encoder does not make, but other encoders may.
func TestApplyFossilTakes(t *testing.T) {
	for _, tt := range []struct{ name, from, delta, to string }{
		{"empty literal", "", "0\n0:0;", ""},
		{"empty copies", "x", "3\n0@0,0@1,3:abc1XObC0;", "abc"},
		{"leading zeros", "abc", "0000003\n00000003@00000000,000000001XObC0;", "abc"},
		{"backwards", "cba", "3\n1@2,1@1,1@0,1XObC0;", "abc"},
		{"one place many times", "ab", "6\n2@0,2@0,2@0," + sum([]byte("ababab")) + ";", "ababab"},
		{"literals with the signs of the format", "", "4\n4:;@,:" + sum([]byte(";@,:")) + ";", ";@,:"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, err := delta.ApplyFossil(nil, []byte(tt.from), []byte(tt.delta), 10); err != nil || string(got) != tt.to {
				t.Errorf("%q, %v; %q is expected", got, err, tt.to)
			}
		})
	}
}

// Invalid input is refused for the right reason, and dst does not change.
func TestApplyFossilRefuses(t *testing.T) {
	const huge = "40000000000000000000000000000000" // 4 and many zeros
	for _, tt := range []struct {
		name, delta string
		want        error // nil: a FormatError
		text        string
	}{
		{"nothing", "", nil, "no number at byte 0"},
		{"no size", "\n0;", nil, "no number at byte 0"},
		{"no line end", "3", nil, "does not end with a line"},
		{"other end of the line", "3\r\n3:abc1XObC0;", nil, "does not end with a line"},
		{"size of 33 bits", "400000\n0;", nil, "more than 32 bits at byte 0"},
		{"size of many bits", huge + "\n0;", nil, "more than 32 bits"},
		{"too large", "B\nB:01234567890;", delta.ErrTooLarge, "it has 11 bytes, 10 are allowed"},
		{"as large as it gets", "3~~~~~\n0;", delta.ErrTooLarge, "4294967295 bytes"},
		{"only a size", "3\n", nil, "no number at byte 2"},
		{"no operator", "3\n3", nil, "no '@', ':' or ';'"},
		{"unknown operator", "3\n3*", nil, "no '@', ':' or ';'"},
		{"literal longer than the delta", "3\n3:ab", nil, "a literal of 3 bytes where 2 are left"},
		{"literal longer than the size", "3\n4:abcd0;", nil, "4 bytes where 3 are left of the size"},
		{"literal of 4 GiB", "3\n3~~~~~:abc1XObC0;", nil, "4294967295 bytes where 3 are left"},
		{"copy longer than the size", "3\n4@0,0;", nil, "4 bytes where 3 are left of the size"},
		{"copy behind the end", "3\n3@3,0;", delta.ErrOtherBase, "copies bytes 3 to 6 of one that has 5"},
		{"copy far behind the end", "3\n3@3~~~~~,0;", delta.ErrOtherBase, "to 4294967298"},
		{"empty copy behind the end", "3\n0@6,3:abc1XObC0;", delta.ErrOtherBase, "bytes 6 to 6"},
		{"copy of 33 bits", "3\n3@4000000,0;", nil, "more than 32 bits at byte 4"},
		{"copy without offset", "3\n3@,0;", nil, "no number at byte 4"},
		{"copy without end", "3\n3@0", nil, "no ',' behind the offset"},
		{"copy with another end", "3\n3@0;", nil, "no ',' behind the offset"},
		{"no checksum", "3\n3:abc", nil, "no number at byte 7"},
		{"empty checksum", "3\n3:abc;", nil, "no number at byte 7"},
		{"wrong checksum", "3\n3:abc1XObC1;", delta.ErrOtherBase, "the checksum is 1633837824 instead of 1633837825"},
		{"end too early", "3\n2:ab1XObC0;", nil, "the end after 2 bytes of 3"},
		{"more behind it", "3\n3:abc1XObC0;\n", nil, "bytes behind the checksum at byte 14"},
		{"a digit that is none", "3\n3:abc1XOb-0;", nil, "no '@', ':' or ';'"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := delta.ApplyFossil([]byte("before"), []byte("01234"), []byte(tt.delta), 10)
			var format *delta.FormatError
			if tt.want == nil && !errors.As(err, &format) || tt.want != nil && !errors.Is(err, tt.want) {
				t.Fatalf("the error is %v", err)
			}
			if !strings.Contains(err.Error(), tt.text) || !strings.HasPrefix(err.Error(), "delta: apply Fossil delta: ") {
				t.Errorf("the error is %q, %q is expected in it", err, tt.text)
			}
			if string(got) != "before" {
				t.Errorf("dst came back as %q", got)
			}
		})
	}
}

func TestApplyFossilLimit(t *testing.T) {
	for _, limit := range []int{-1, 0, 2} {
		if _, err := delta.ApplyFossil(nil, nil, []byte("3\n3:abc1XObC0;"), limit); !errors.Is(err, delta.ErrTooLarge) {
			t.Errorf("limit %d: %v", limit, err)
		}
	}
	if got, err := delta.ApplyFossil(nil, nil, []byte("0\n0;"), -1); err != nil || len(got) != 0 {
		t.Errorf("an empty value: %q, %v", got, err)
	}
}

// checkFossil checks the promises that hold for every pair, and returns the delta.
func checkFossil(t *testing.T, e *delta.Encoder, p pair) []byte {
	t.Helper()
	from, to := bytes.Clone(p.from), bytes.Clone(p.to)
	d := e.AppendFossil(nil, p.from, p.to)
	got, err := delta.ApplyFossil(nil, p.from, d, len(p.to))
	if err != nil || !bytes.Equal(got, p.to) {
		t.Fatalf("%q to %q by %q: %q, %v", p.from, p.to, d, got, err)
	}
	if !bytes.Equal(p.from, from) || !bytes.Equal(p.to, to) {
		t.Fatal("the values were written to")
	}
	if len(d) > longest(len(p.to)) {
		t.Fatalf("%d bytes for a value of %d: %q to %q by %q", len(d), len(p.to), p.from, p.to, d)
	}
	if utf8.Valid(p.to) && !utf8.Valid(d) {
		t.Fatalf("a delta to UTF-8 is not UTF-8: %q to %q by %q", p.from, p.to, d)
	}
	if fresh := new(delta.Encoder).AppendFossil(nil, p.from, p.to); !bytes.Equal(fresh, d) {
		t.Fatalf("a used encoder made %q, a new one %q", d, fresh)
	}
	return d
}

func TestFossilRoundTrip(t *testing.T) {
	for _, m := range makers {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			var e delta.Encoder
			for seed := range uint64(400) {
				checkFossil(t, &e, m.make(newRand(seed)))
			}
		})
	}
}

// All pairs of short values of two letters.
func TestFossilShort(t *testing.T) {
	var values [][]byte
	for n := range 1 << 7 {
		values = append(values, []byte(strconv.FormatInt(int64(n), 2)))
	}
	values = append(values, nil)
	var e delta.Encoder
	for _, from := range values {
		for _, to := range values {
			checkFossil(t, &e, pair{from, to})
		}
	}
}

// A change of one byte, at every position and in values around multiples of the block size, has a short delta.
func TestFossilOneChange(t *testing.T) {
	var e delta.Encoder
	for n := 1; n < 100; n++ {
		from := noise(newRand(uint64(n)), n)
		for at := range n {
			changed := bytes.Clone(from)
			changed[at] ^= 1
			for what, to := range map[string][]byte{
				"changed": changed, "inserted": join(from[:at], []byte("+"), from[at:]), "removed": join(from[:at], from[at+1:]),
			} {
				if d := checkFossil(t, &e, pair{from, to}); len(d) > 30 {
					t.Errorf("byte %d of %d %s: a delta of %d bytes", at, n, what, len(d))
				}
			}
		}
	}
}

// The sizes of deltas for typical changes are fixed, so that a worse search is noticed.
func TestFossilIsShort(t *testing.T) {
	r := newRand(7)
	var e delta.Encoder
	row := row4K()
	large := noise(r, 64<<10)
	b := newBook(r, 50)
	before := b.json()
	b.move(r, 3)
	for _, tt := range []struct {
		name string
		pair pair
		most int
	}{
		{"one member", pair{row.from, row.to}, 40},
		{"three levels of a book", pair{before, b.json()}, 150},
		{"two edits far apart", pair{large, join(large[:100], []byte("+"), large[100:60_000], []byte("-"), large[60_000:])}, 60},
		{"parts that changed places", pair{large[:8000], join(large[4000:8000], large[:4000])}, 40},
		{"a part from near by", pair{large, join(large[:30_000], large[28_000:29_000], large[30_000:])}, 60},
		{"a part from out of reach", pair{large, join(large[:30_000], large[50_000:51_000], large[30_000:])}, 1050},
	} {
		if d := checkFossil(t, &e, tt.pair); len(d) > tt.most {
			t.Errorf("%s: a delta of %d bytes for %d, at most %d are expected", tt.name, len(d), len(tt.pair.to), tt.most)
		}
	}
}

// Adversarial values, with many matches that gain little, take no longer than others, and their deltas are no longer. With quadratic work they
// would take minutes.
func TestFossilHostile(t *testing.T) {
	const size = 1 << 18
	zeros := make([]byte, size)
	period := bytes.Repeat([]byte("0123456789abcdef"), size/16)
	var broken []byte // every block of it is in period, and no two in a row
	for i := 0; len(broken) < size; i++ {
		broken = fmt.Appendf(append(broken, period[:16]...), "<%d>", i)
	}
	random := noise(newRand(3), size)
	offsets := noise(newRand(4), 300_000) // of four digits, beyond 64³
	ninth := bytes.Clone(offsets)
	for i := 8; i < len(ninth); i += 9 {
		ninth[i]++
	}
	var e delta.Encoder
	for name, p := range map[string]pair{
		"zeros":            {zeros, join([]byte("a"), zeros, []byte("b"))},
		"zeros and noise":  {join([]byte("a"), zeros), join(random, []byte("b"))},
		"repeated":         {period, join([]byte("x"), period[5:], []byte("y"))},
		"broken":           {join(period, []byte("a")), join([]byte("b"), broken)},
		"broken, back":     {join(broken, []byte("a")), join([]byte("b"), period)},
		"noise":            {random, noise(newRand(4), size)},
		"every ninth byte": {offsets, ninth},
	} {
		t.Run(name, func(t *testing.T) { checkFossil(t, &e, p) })
	}
}

// An encoder with its working memory, and a dst that is large enough, allocate nothing.
func TestAllocations(t *testing.T) {
	var e delta.Encoder
	row := row4K()
	buf := make([]byte, 0, 16<<10)
	fossil := e.AppendFossil(nil, row.from, row.to)
	for name, run := range map[string]func(){
		"make a Fossil delta":  func() { e.AppendFossil(buf, row.from, row.to) },
		"make a patch":         func() { e.AppendMergePatch(buf, row.from, row.to) },
		"apply a Fossil delta": func() { _, _ = delta.ApplyFossil(buf, row.from, fossil, len(row.to)) },
	} {
		if n := testing.AllocsPerRun(100, run); n != 0 {
			t.Errorf("to %s takes %v allocations", name, n)
		}
	}
}

// No segment is larger than every SDK can apply.
func TestFossilSegments(t *testing.T) {
	value := letters(newRand(5), 70_000, 100)
	var e delta.Encoder
	for _, tt := range []struct {
		name     string
		from     []byte
		segments string
	}{
		{"copies", join([]byte("\x7f"), value), "800@1,800@801,15l@G01,"},
		{"literals", nil, "800:" + string(value[:32<<10]) + "800:" + string(value[32<<10:64<<10]) + "15l:" + string(value[64<<10:])},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want := number(70_000) + "\n" + tt.segments + sum(value) + ";"
			if got := checkFossil(t, &e, pair{tt.from, value}); string(got) != want {
				t.Errorf("the delta has %d bytes, %d are expected", len(got), len(want))
			}
		})
	}
}

// The memory for one large value is freed, and the encoder keeps no reference to any value.
func TestEncoderKeepsLittle(t *testing.T) {
	var e delta.Encoder
	large := noise(newRand(6), 8<<20)
	object := []byte(`{"":0,"\u0061":[{"b":1}]}`)
	many := []byte(`{"":0`)
	for i := range 100_000 {
		many = fmt.Appendf(many, `,"\u0061%d":1`, i)
	}
	many = append(many, '}')
	for _, p := range []pair{{large, large[5<<20 : 6<<20]}, {object, many}, {many, object}, {large[:1<<20], large[2<<20 : 3<<20]}} {
		e.AppendFossil(nil, p.from, p.to[:min(len(p.to), 100)])
		e.AppendMergePatch(nil, p.from, p.to)
		if kept := e.Kept(); kept > 8<<20 || e.Holds() {
			t.Errorf("after values of %d and %d bytes an encoder keeps %d bytes, a value: %v", len(p.from), len(p.to), kept, e.Holds())
		}
	}
}

// Characters that share bytes are not cut, wherever a copy begins or ends. All other tests check too that the deltas are UTF-8.
func TestFossilCharacters(t *testing.T) {
	const long = "0123456789abcdefghijklmnopqrstuvwxyz0123456789"
	var e delta.Encoder
	for _, tt := range []struct{ name, from, to string }{
		{"the same first byte", long + "é", long + "è"},
		{"the same last byte", "é" + long, "ĩ" + long},
		{"the same first byte of a copy between", "+" + long + "é+", "--" + long + "è-"},
		{"the same last byte of a copy between", "+é" + long + "+", "--ĩ" + long + "-"},
		{"three bytes of four", long + "\U0001f30a", long + "\U0001f30b"},
		{"the last three bytes of four", "\U0001f30a" + long, "\U0005f30a" + long},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if d := checkFossil(t, &e, pair{[]byte(tt.from), []byte(tt.to)}); len(d) > 30 {
				t.Errorf("the delta is %q", d)
			}
		})
	}
}
