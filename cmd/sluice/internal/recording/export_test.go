package recording

import "encoding/json"

// Scan checks a frame as Next does, and returns its symbol.
func Scan(frame []byte) (symbol string, err error) {
	var f scanner
	if err := f.scan(frame); err != nil {
		return "", err
	}
	var in interner
	return in.symbol(f.symbol()), nil
}

// Valid is the reference for the error of Scan.
func Valid(frame []byte) bool { return json.Valid(frame) }
