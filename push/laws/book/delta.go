package main

import (
	"encoding/json"
	"fmt"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/delta"
)

// mostBytes bounds what a difference may make.
const mostBytes = 64 << 10

// whole returns the data of a publication in full: what it makes of the row that the client has, if it is a difference.
func whole(form push.Delta, p *push.Publication, row string, has bool) ([]byte, error) {
	data := p.Data
	if form == push.Fossil && p.Op == push.Set { // then all data is in strings
		var text string
		if err := json.Unmarshal(data, &text); err != nil {
			return nil, fmt.Errorf("row %s: %w", p.Key, err)
		}
		data = []byte(text)
	}
	switch {
	case !p.Delta:
		return data, nil
	case form == push.NoDelta:
		return nil, fmt.Errorf("row %s came as a difference, which was not asked for", p.Key)
	case !has:
		return nil, fmt.Errorf("row %s came as a difference to nothing", p.Key)
	}
	var err error
	if form == push.Fossil {
		data, err = delta.ApplyFossil(nil, []byte(row), data, mostBytes)
	} else {
		data, err = delta.ApplyMergePatch(nil, []byte(row), data)
	}
	if err != nil {
		return nil, fmt.Errorf("row %s: %w", p.Key, err)
	}
	return data, nil
}
