package recording

import (
	"bytes"
	"errors"
	"fmt"
	"math"
)

// format is one of the two formats of a recording; see the package comment.
type format uint8

const (
	formatUnknown  format = iota
	formatStamped         // <unix ns> <json>
	formatCaptured        // a recorded conversation
)

// kind is the kind of a line.
type kind uint8

const (
	lineOther  kind = iota // part of the conversation, but not a frame
	lineFrame              // received over the WebSocket
	lineAnswer             // answer to an HTTP request
)

// parts are the parts of a line.
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

// detect returns the format that the first non-blank line is in.
func detect(line []byte) format {
	if n := countDigits(line); n > 0 && n < len(line) {
		switch line[n] {
		case ' ':
			return formatStamped
		case '.', ':':
			return formatCaptured
		}
		return formatUnknown
	}
	if _, arrow, _ := cutAddress(line); arrow != "" {
		return formatCaptured
	}
	return formatUnknown
}

func (f format) cut(line []byte) (parts, error) {
	if f == formatStamped {
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

// cutAddress splits "<address> <arrow> <rest>". If the line has another form, the arrow is empty. An address has no spaces.
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

// cutSeconds parses Unix seconds, with or without a fraction, at the start of b. It drops digits beyond nanoseconds.
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
