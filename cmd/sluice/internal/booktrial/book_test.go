package main

import (
	"strings"
	"testing"
)

func TestLess(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"1", "2", true},
		{"2", "1", false},
		{"9.99", "10", true},
		{"10", "9.99", false},
		{"61837.63000000", "61837.64000000", true},
		{"61837.63", "61837.63000000", false},
		{"61837.63000000", "61837.63", false},
		{"0.1", "0.09", false},
		{"0.09", "0.1", true},
		{"007.5", "8", true},
		{"0.5", ".75", true},
		{"1", "1.00000001", true},
		{"90071992547409930.1", "90071992547409930.2", true}, // equal as 64-bit floats
	} {
		if got := less(tt.a, tt.b); got != tt.want {
			t.Errorf("less(%s, %s) is %t", tt.a, tt.b, got)
		}
	}
}

// bookOf returns a book of levels: each has a side, a price and a quantity.
func bookOf(levels ...string) book {
	b := book{}
	for _, l := range levels {
		f := strings.Fields(l)
		b.apply(newChange(f[0], f[1], f[2], 1))
	}
	return b
}

func TestQuote(t *testing.T) {
	b := bookOf("b 99.5 1", "b 100.5 2", "b 9 3", "a 101 4", "a 1000 5", "a 102 6", "b 100.6 7", "b 100.6 0.000", "a 100.9 0")
	got, err := b.quote()
	if want := (quote{"100.5", "2", "101", "4"}); err != nil || got != want {
		t.Errorf("quote is %v (%v), want %v", got, err, want)
	}
	if got, err := (book{}).quote(); err != nil || got != (quote{}) {
		t.Errorf("the quote of an empty book is %v (%v)", got, err)
	}
	b["b101"] = b["b100.5"]
	if _, err := b.quote(); err == nil {
		t.Error("a row that holds another level is taken")
	}
	b["b101"] = "{"
	if _, err := b.quote(); err == nil {
		t.Error("a row that is not JSON is taken")
	}
}
