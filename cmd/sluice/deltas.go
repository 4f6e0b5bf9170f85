package main

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/delta"
)

// maxData is the largest size of the data that applying a delta may produce, in bytes.
const maxData = 64 << 20

// deltaState holds a subscriber's current data of a channel whose publications may come as deltas.
type deltaState struct {
	form   push.Delta
	quoted bool              // Fossil deltas, and the data they apply to, are JSON strings
	held   map[string][]byte // by key
}

// resolve replaces the data of a publication by the full data: it applies a delta to the data that the subscriber holds for the key.
func (b *deltaState) resolve(channel string, p *push.Publication) error {
	switch p.Op {
	case push.Remove:
		delete(b.held, p.Key)
		return nil
	case push.Clear:
		clear(b.held)
		return nil
	}
	data := p.Data
	if b.form == push.Fossil && b.quoted {
		var text string
		if err := json.Unmarshal(data, &text); err != nil {
			return fmt.Errorf("data of %s is not a string: %w", channel, err)
		}
		data = []byte(text)
	}
	if p.Delta {
		var err error
		switch base, ok := b.held[p.Key]; {
		case !ok:
			return fmt.Errorf("delta in %s without a base", channel)
		case b.form == push.Fossil:
			data, err = delta.ApplyFossil(nil, base, data, maxData)
		default:
			data, err = delta.ApplyMergePatch(nil, base, data)
		}
		if err != nil {
			return fmt.Errorf("delta in %s cannot be applied: %w", channel, err)
		}
	}
	b.held[p.Key] = bytes.Clone(data)
	p.Data = data
	return nil
}
