package main

import (
	"encoding/json"
	"fmt"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/delta"
)

// maxBytes is the largest size of the data that a delta may produce.
const maxBytes = 64 << 10

// resolve returns the full data of a publication. If the publication is a delta, resolve applies it to the client's row.
func resolve(form push.Delta, p *push.Publication, row string, has bool) ([]byte, error) {
	data := p.Data
	if form == push.Fossil && p.Op == push.Set { // then every data is a JSON string
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
		return nil, fmt.Errorf("row %s is a delta, which was not requested", p.Key)
	case !has:
		return nil, fmt.Errorf("row %s is a delta without a base", p.Key)
	}
	var err error
	if form == push.Fossil {
		data, err = delta.ApplyFossil(nil, []byte(row), data, maxBytes)
	} else {
		data, err = delta.ApplyMergePatch(nil, []byte(row), data)
	}
	if err != nil {
		return nil, fmt.Errorf("row %s: %w", p.Key, err)
	}
	return data, nil
}
