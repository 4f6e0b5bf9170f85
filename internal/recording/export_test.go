package recording

import "encoding/json"

// Walk checks frame as Next does and returns its symbol.
func Walk(frame []byte) (symbol string, err error) {
	var f finder
	if err := f.walk(frame); err != nil {
		return "", err
	}
	var in interner
	return in.symbol(f.symbol()), nil
}

// Valid is what the error of Walk has to agree with.
func Valid(frame []byte) bool { return json.Valid(frame) }
