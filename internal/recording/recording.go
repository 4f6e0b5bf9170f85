// Package recording reads recorded exchange traffic, one frame after the other.
//
// Two forms are understood, told apart by the first line, each with or without gzip around it, told apart by the first bytes:
//
//   - stamped: every line is a frame, "<receive time, unix nanoseconds> <the JSON as received>";
//   - captured: a conversation with an exchange. "<address> <-> <time>" opens it, "<address> <- <time>: <body>" is what the client
//     sent, "<time>: <JSON>" is a frame of the WebSocket and "<address> -> <time>: <JSON>" the answer to an HTTP request. Times are
//     unix seconds with a fraction. What the exchange sent is a frame; the other lines are not.
//
// Blank lines are passed over. A frame is one JSON value on one line; it is checked, and handed out byte for byte as it stands in
// the file, whatever white space it has.
//
// # Symbols
//
// The symbol of a frame is read from its JSON. The rules go by shape, not by exchange, so that recordings of other origin work too.
// The first rule that yields something counts:
//
//   - the members "product_id", "symbol" and "s" of the frame itself (Coinbase, Kraken Futures);
//   - the members "symbol" and "s" of its member "data", which may be an object or an array of objects that all agree (Binance,
//     KuCoin, BitMEX);
//   - "stream" up to the first @ (Binance), "topic" after the colon and up to an underscore (KuCoin), "channel" after the last
//     underscore when there is an "event" that does not begin with "bts:" (Bitstamp);
//   - the last element of an array of four or more that begins with a number and ends with two strings (Kraken);
//   - in an HTTP answer, the query parameter "symbol" or what follows /order_book/ in the address.
//
// Acknowledgements, heartbeats, system messages and frames about several symbols have none. Symbols are normalised in one respect,
// because the same exchange writes btcusdt in one place and BTCUSDT in another: ASCII letters are in upper case. They hold at most
// [MaxSymbolLen] bytes of valid UTF-8 without control characters; what does not is taken for no symbol.
package recording

import (
	"errors"
	"fmt"
	"math"
)

const (
	// MaxSymbolLen is the longest symbol, in bytes. Longer names are taken for no symbol.
	MaxSymbolLen = 64

	defaultMaxLine = 16 << 20
)

// ErrLineTooLong is in the [Error] of a line longer than [Options] allows.
var ErrLineTooLong = errors.New("line is too long")

// Frame is one message that an exchange sent.
type Frame struct {
	// Time is when it was received, in Unix nanoseconds, never negative. Nothing says that it rises from frame to frame.
	Time int64
	// Symbol is the instrument that the frame is about, or empty; see the package comment.
	Symbol string
	// Data is the JSON value exactly as received. It is borrowed: the next call of [Reader.Next] overwrites it.
	Data []byte
	// Line is its line in the (decompressed) file, counted from 1.
	Line int
}

// Error says where a recording cannot be read and why. The causes that callers may want to tell apart are [ErrLineTooLong],
// [io.ErrUnexpectedEOF] for compressed data that ends early, and the errors of the file itself.
type Error struct {
	File string // the name given to Open or NewReader
	Line int    // counted from 1; 0 when the file could not be opened
	Err  error
}

// Error returns "recording: FILE:LINE: cause".
func (e *Error) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("recording: %s: %v", e.File, e.Err)
	}
	return fmt.Sprintf("recording: %s:%d: %v", e.File, e.Line, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Options adjust a [Reader]. The zero value, and nil, mean the defaults.
type Options struct {
	// MaxLine is the longest line in bytes, and with it the memory a reader takes. Zero means 16 MiB (the longest line of the
	// recordings this was made for has 0.7 MB); negative means no limit.
	MaxLine int
}

func (o *Options) withDefaults() Options {
	var out Options
	if o != nil {
		out = *o
	}
	switch {
	case out.MaxLine == 0:
		out.MaxLine = defaultMaxLine
	case out.MaxLine < 0:
		out.MaxLine = math.MaxInt
	}
	return out
}
