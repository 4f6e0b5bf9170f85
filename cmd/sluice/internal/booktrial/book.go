package main

import (
	"encoding/json"
	"fmt"
	"strings"
)

// level is a price level, as it is in a row of a table channel. The key of the row is the side and the price.
type level struct {
	Side     string `json:"s"` // b: bid, a: ask
	Price    string `json:"p"`
	Quantity string `json:"q"`
	Update   uint64 `json:"u"` // the exchange's number of the update that set the level
}

// change is the change of one level by an update. It sets the row to data, or removes the row if data is empty.
type change struct {
	key  string
	data string
}

// newChange returns the change for a level that the exchange sent.
func newChange(side, price, quantity string, update uint64) change {
	c := change{key: side + price}
	if !isZero(quantity) {
		c.data = fmt.Sprintf(`{"s":%q,"p":%q,"q":%q,"u":%d}`, side, price, quantity, update)
	}
	return c
}

// isZero reports whether a decimal is zero.
func isZero(decimal string) bool { return strings.Trim(decimal, "0.") == "" }

// less compares two decimals without sign or exponent, as exchanges write them. It compares the digits, because a float would lose some.
func less(a, b string) bool {
	aWhole, aRest, _ := strings.Cut(a, ".")
	bWhole, bRest, _ := strings.Cut(b, ".")
	aWhole, bWhole = strings.TrimLeft(aWhole, "0"), strings.TrimLeft(bWhole, "0")
	switch {
	case len(aWhole) != len(bWhole):
		return len(aWhole) < len(bWhole)
	case aWhole != bWhole:
		return aWhole < bWhole
	}
	return strings.TrimRight(aRest, "0") < strings.TrimRight(bRest, "0")
}

// book is an order book: the rows of a table channel, by key.
type book map[string]string

// apply applies a change.
func (b book) apply(c change) {
	if c.data == "" {
		delete(b, c.key)
		return
	}
	b[c.key] = c.data
}

// quote is the best bid and the best ask, with their quantities.
type quote struct{ bid, bids, ask, asks string }

func (q quote) String() string {
	return fmt.Sprintf("%s × %s bid, %s × %s asked", q.bid, q.bids, q.ask, q.asks)
}

// quote computes the best bid and ask from the rows. The error names a row that cannot be parsed.
func (b book) quote() (quote, error) {
	var bid, ask string // keys
	for key := range b {
		switch {
		case strings.HasPrefix(key, "b"):
			if bid == "" || less(bid[1:], key[1:]) {
				bid = key
			}
		case ask == "" || less(key[1:], ask[1:]):
			ask = key
		}
	}
	var q quote
	for _, best := range []struct {
		key             string
		price, quantity *string
	}{{bid, &q.bid, &q.bids}, {ask, &q.ask, &q.asks}} {
		if best.key == "" {
			continue
		}
		var l level
		if err := json.Unmarshal([]byte(b[best.key]), &l); err != nil {
			return q, fmt.Errorf("row %s: %w", best.key, err)
		}
		if l.Side+l.Price != best.key {
			return q, fmt.Errorf("row %s holds level %s%s", best.key, l.Side, l.Price)
		}
		*best.price, *best.quantity = l.Price, l.Quantity
	}
	return q, nil
}
