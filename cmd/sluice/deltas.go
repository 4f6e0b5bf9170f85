package main

import (
	"encoding/json"
	"fmt"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/delta"
)

// mostData is the longest data that a difference may make.
const mostData = 64 << 20

// bases are what a subscriber has of a channel whose publications may come as differences.
type bases struct {
	form push.Delta
	held map[string][]byte // by key
}

// whole gives a publication its data in full.
func (b *bases) whole(channel string, p *wirePublication) error {
	if p.Removed {
		delete(b.held, p.Key)
		return nil
	}
	data := []byte(p.Data)
	if b.form == push.Fossil {
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
			return fmt.Errorf("a difference in %s builds on nothing", channel)
		case b.form == push.Fossil:
			data, err = delta.ApplyFossil(nil, base, data, mostData)
		default:
			data, err = delta.ApplyMergePatch(nil, base, data)
		}
		if err != nil {
			return fmt.Errorf("a difference in %s does not fit: %w", channel, err)
		}
	}
	b.held[p.Key], p.Data = data, data
	return nil
}
