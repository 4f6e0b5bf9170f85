// Package recording reads recorded traffic of exchanges, frame by frame.
//
// It understands two formats, which it tells apart by the first line. Either may be compressed by gzip, which it detects by the first bytes:
//
//   - stamped: every line is a frame, "<receive time, unix nanoseconds> <the JSON as received>";
//   - captured: a conversation with an exchange. "<address> <-> <time>" opens it, "<address> <- <time>: <body>" is a message of the client,
//     "<time>: <JSON>" is a frame of the WebSocket and "<address> -> <time>: <JSON>" the answer to an HTTP request. Times are Unix seconds
//     with a fraction. The messages of the exchange are frames; the other lines are not.
//
// Blank lines are skipped. A frame is one JSON value on one line. The reader validates it, and returns it byte for byte as it is in the file,
// including its white space.
//
// # Symbols
//
// The symbol of a frame is read from its JSON. The rules depend on the shape of the JSON and not on the exchange, so that recordings of other
// exchanges work too. The first rule that yields a symbol applies:
//
//   - the members "product_id", "symbol" and "s" of the frame itself (Coinbase, Kraken Futures);
//   - the members "symbol" and "s" of its member "data", which may be an object or an array of objects that all agree (Binance,
//     KuCoin, BitMEX);
//   - "stream" up to the first @ (Binance), "topic" after the colon and up to an underscore (KuCoin), "channel" after the last
//     underscore when there is an "event" that does not begin with "bts:" (Bitstamp);
//   - the last element of an array of four or more that begins with a number and ends with two strings (Kraken);
//   - in an HTTP answer, the query parameter "symbol" or the part after /order_book/ in the address.
//
// Acknowledgements, heartbeats, system messages and frames about several symbols have no symbol. Symbols are converted to upper case (ASCII
// letters only), because the same exchange writes btcusdt in one place and BTCUSDT in another. A symbol has at most [MaxSymbolLen] bytes of
// valid UTF-8 without control characters. A name that violates this is ignored.
package recording

import (
	"errors"
	"fmt"
	"math"
)

const (
	// MaxSymbolLen is the greatest length of a symbol, in bytes. Longer names are ignored.
	MaxSymbolLen = 64

	defaultMaxLine = 16 << 20
)

// ErrLineTooLong is in the [Error] for a line that is longer than [Options] allows.
var ErrLineTooLong = errors.New("line is too long")

// Frame is one message that an exchange sent.
type Frame struct {
	// Time is when the frame was received, in Unix nanoseconds. It is never negative. It may be lower than that of the frame before.
	Time int64
	// Symbol is the instrument that the frame is about. It may be empty; see the package comment.
	Symbol string
	// Data is the JSON value exactly as received. The next call of [Reader.Next] overwrites it.
	Data []byte
	// Line is the line of the frame in the (decompressed) file, counted from 1.
	Line int
}

// Error says where a recording cannot be read, and why. Callers can distinguish [ErrLineTooLong], [io.ErrUnexpectedEOF] for compressed data that
// ends early, and the errors of the file.
type Error struct {
	File string // the name given to Open or NewReader
	Line int    // counted from 1; 0 if the file could not be opened
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

// Options are the settings of a [Reader]. The zero value and nil mean the defaults.
type Options struct {
	// MaxLine is the length of the longest line in bytes, and so bounds the memory of a reader. Zero means 16 MiB, negative means no limit.
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
