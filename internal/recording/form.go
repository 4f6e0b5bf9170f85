package recording

import (
	"bytes"
	"errors"
	"fmt"
	"math"
)

// form is one of the two ways to write a recording.
type form uint8

const (
	formUnknown  form = iota
	formStamped       // <unix ns> <json>
	formCaptured      // a conversation
)

// kind is what a line is.
type kind uint8

const (
	lineOther  kind = iota // says something about the conversation, but is no frame
	lineFrame              // came over the WebSocket
	lineAnswer             // answers an HTTP request
)

// parts are what a line consists of.
type parts struct {
	kind    kind
	time    int64 // unix nanoseconds
	address []byte
	body    []byte
}

var (
	errStamped  = errors.New(`expected "<unix nanoseconds> <JSON>"`)
	errCaptured = errors.New(`expected "<unix seconds>: <JSON>" or "<address> <->, <- or -> <unix seconds>"`)
	errTime     = errors.New("time is out of range")
)

// detect tells the form by the first line that is not blank.
func detect(line []byte) form {
	if n := countDigits(line); n > 0 && n < len(line) {
		switch line[n] {
		case ' ':
			return formStamped
		case '.', ':':
			return formCaptured
		}
		return formUnknown
	}
	if _, arrow, _ := cutAddress(line); arrow != "" {
		return formCaptured
	}
	return formUnknown
}

func (f form) cut(line []byte) (parts, error) {
	if f == formStamped {
		return cutStamped(line)
	}
	return cutCaptured(line)
}

func cutStamped(line []byte) (parts, error) {
	n := countDigits(line)
	if n == 0 || n == len(line) || line[n] != ' ' {
		return parts{}, errStamped
	}
	t, err := parseDigits(line[:n])
	if err != nil {
		return parts{}, err
	}
	return parts{kind: lineFrame, time: t, body: line[n+1:]}, nil
}

func cutCaptured(line []byte) (parts, error) {
	if countDigits(line) > 0 {
		t, rest, err := cutSeconds(line)
		if err != nil {
			return parts{}, err
		}
		body, ok := bytes.CutPrefix(rest, []byte(": "))
		if !ok {
			return parts{}, errCaptured
		}
		return parts{kind: lineFrame, time: t, body: body}, nil
	}
	address, arrow, rest := cutAddress(line)
	switch arrow {
	case "":
		return parts{}, errCaptured
	case "<->", "<-":
		return parts{kind: lineOther}, nil
	}
	t, rest, err := cutSeconds(rest)
	if err != nil {
		return parts{}, err
	}
	body, ok := bytes.CutPrefix(rest, []byte(": "))
	if !ok {
		return parts{}, errCaptured
	}
	return parts{kind: lineAnswer, time: t, address: address, body: body}, nil
}

// cutAddress splits "<address> <arrow> <rest>"; the arrow is empty when the line is not like that. An address has no spaces.
func cutAddress(line []byte) (address []byte, arrow string, rest []byte) {
	address, rest, _ = bytes.Cut(line, []byte{' '})
	if len(address) == 0 {
		return nil, "", nil
	}
	for _, arrow := range [...]string{"<->", "<-", "->"} {
		if r, found := bytes.CutPrefix(rest, []byte(arrow)); found && len(r) > 0 && r[0] == ' ' {
			return address, arrow, r[1:]
		}
	}
	return nil, "", nil
}

// cutSeconds reads unix seconds with or without a fraction from the start of b. Digits beyond nanoseconds are dropped.
func cutSeconds(b []byte) (ns int64, rest []byte, err error) {
	n := countDigits(b)
	if n == 0 {
		return 0, nil, errCaptured
	}
	seconds, err := parseDigits(b[:n])
	if err != nil {
		return 0, nil, err
	}
	rest = b[n:]
	var fraction int64
	if len(rest) > 0 && rest[0] == '.' {
		digits := countDigits(rest[1:])
		if digits == 0 {
			return 0, nil, errCaptured
		}
		for i := range 9 {
			fraction *= 10
			if i < digits {
				fraction += int64(rest[1+i] - '0')
			}
		}
		rest = rest[1+digits:]
	}
	if seconds > (math.MaxInt64-fraction)/1e9 {
		return 0, nil, fmt.Errorf("%w: %d seconds", errTime, seconds)
	}
	return seconds*1e9 + fraction, rest, nil
}

func countDigits(b []byte) int {
	for i, c := range b {
		if c < '0' || c > '9' {
			return i
		}
	}
	return len(b)
}

func parseDigits(b []byte) (int64, error) {
	var v int64
	for _, c := range b {
		d := int64(c - '0')
		if v > (math.MaxInt64-d)/10 {
			return 0, fmt.Errorf("%w: a number of %d digits", errTime, len(b))
		}
		v = v*10 + d
	}
	return v, nil
}
