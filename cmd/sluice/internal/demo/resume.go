package demo

import (
	"encoding/json"
	"fmt"
	"math"
)

// Continue restores the state of a symbol from a tick of an earlier feed, in the form of [Tick.AppendJSON]. It must be called before the first
// Step. It ignores ticks of unknown symbols.
func (f *Feed) Continue(data []byte) error {
	var last struct {
		Symbol        string
		Price, Change float64
		Volume        int64
	}
	if err := json.Unmarshal(data, &last); err != nil {
		return fmt.Errorf("demo: continue: %w", err)
	}
	for i := range f.symbols {
		s := &f.symbols[i]
		if s.name != last.Symbol {
			continue
		}
		price, open := last.Price, last.Price/(1+last.Change/100)
		if !(price >= 1 && price < 1e6 && open >= 1 && open < 1e6 && last.Volume >= 0) {
			return fmt.Errorf("demo: continue: %s is not a tick of a feed", data)
		}
		s.price, s.open, s.volume = int64(math.Round(price*micro)), int64(math.Round(open*micro)), last.Volume
	}
	return nil
}
