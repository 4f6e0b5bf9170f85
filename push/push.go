// Package push holds the vocabulary of the platform: the values that pass between brokers, hubs, gateways and the HTTP API, and
// the codes by which clients learn what happened. It has no behaviour of its own beyond checking names.
//
// A channel is what clients subscribe to, named "namespace:name". A publication is one item in a channel. Its offset is its
// place in the channel, its epoch says which life of the channel the offset belongs to; the two together are a position.
package push

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

const (
	// MaxOffset is the largest offset: 2^53 − 1, the largest integer that every JSON client can hold exactly.
	MaxOffset = 1<<53 - 1

	// MaxChannelLen is the longest channel name, in bytes.
	MaxChannelLen = 255

	// MaxKeyLen is the longest key of a publication, in bytes.
	MaxKeyLen = 255

	// MaxTagBytes is what the names and values of a publication's tags may come to, in bytes.
	MaxTagBytes = 16 << 10

	// MaxIdempotencyKeyLen is the longest idempotency key, in bytes.
	MaxIdempotencyKeyLen = 1 << 10
)

// Position is a place in one life of a channel. The zero Position is none.
type Position struct {
	Epoch  string // which life of the channel; opaque to everyone but the source
	Offset uint64 // everything up to and including this offset is behind the reader
}

// Op says what a publication does to its channel.
type Op uint8

// The operations. In stream mode only Set occurs.
const (
	Set    Op = iota // add the publication, or in a table replace the row of the same key
	Remove           // remove the row of that key; Data is empty
	Clear            // remove all rows and forget all history before it
)

// Publication is one item in a channel. Once handed over, a publication and everything it refers to is immutable: it is shared
// by all readers without copying.
type Publication struct {
	// Offset is given by the broker: increasing within a channel, not consecutive, at least 1 and at most [MaxOffset].
	Offset uint64
	// Key names the row in table mode; in stream mode it is only carried along.
	Key string
	// Data is the payload; the JSON client protocol requires it to be one JSON value.
	Data []byte
	// Tags are what filters match on.
	Tags map[string]string
	// Info says which client published it; nil when it came from the server side.
	Info *ClientInfo
	// Time is when the broker accepted it, in Unix milliseconds.
	Time int64
	// Op is what it does to the channel.
	Op Op
	// Delta says that Data is not the payload but the difference that makes it of the one before. It is so only on the way to clients
	// that asked for that, see [Delta].
	Delta bool
}

// Size is what the publication counts for in byte budgets and retention: the bytes of its data, key and tags.
func (p *Publication) Size() int {
	n := len(p.Key) + len(p.Data)
	for k, v := range p.Tags {
		n += len(k) + len(v)
	}
	return n
}

// ClientInfo describes a connected client to others: in presence and as the publisher of a publication. Immutable once shared.
type ClientInfo struct {
	User     string // who it is; empty for anonymous clients
	Client   string // the identity of the connection
	ConnInfo []byte // JSON given by the authentication for the connection, or nil
	ChanInfo []byte // JSON given by the authorisation of the subscription, or nil
}

// Namespace returns the part of a channel name before the first colon, empty when there is none.
func Namespace(channel string) string {
	ns, _, found := strings.Cut(channel, ":")
	if !found {
		return ""
	}
	return ns
}

// UnknownChannel is an [ErrUnknownChannel] that says which namespace there is not.
func UnknownChannel(name string) error {
	if ns := Namespace(name); ns != "" {
		return ErrUnknownChannel.WithMessage("unknown channel: there is no namespace %q", ns)
	}
	return ErrUnknownChannel.WithMessage("unknown channel: there is no namespace for names without a colon")
}

// MatchChannel reports whether a channel's name is what a pattern says, in which each * stands for any number of characters.
func MatchChannel(pattern, name string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == name
	}
	if !strings.HasPrefix(name, parts[0]) {
		return false
	}
	name = name[len(parts[0]):]
	for _, part := range parts[1 : len(parts)-1] {
		i := strings.Index(name, part)
		if i < 0 {
			return false
		}
		name = name[i+len(part):]
	}
	return strings.HasSuffix(name, parts[len(parts)-1])
}

// CheckChannel reports what is wrong with a channel name: it must have 1 to [MaxChannelLen] bytes of valid UTF-8 without
// control characters, and not begin with a colon, before which a namespace would stand.
func CheckChannel(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("channel name is empty")
	case name[0] == ':':
		return fmt.Errorf("channel name begins with a colon, but the name of a namespace is missing before it")
	}
	return checkName("channel name", name, MaxChannelLen)
}

// CheckKey reports what is wrong with a publication's key: at most [MaxKeyLen] bytes of valid UTF-8 without control characters.
// The empty key is valid: it is the one row of a value channel.
func CheckKey(key string) error { return checkName("key", key, MaxKeyLen) }

// CheckPublication returns the *[Error] with which a publication is refused whose key is not valid, or whose tags or idempotency key are larger
// than every broker stores; nil if there is nothing wrong with them.
func CheckPublication(p *Publication, idempotencyKey string) error {
	if err := CheckKey(p.Key); err != nil {
		return ErrBadRequest.WithMessage("%v", err)
	}
	tags := 0
	for name, value := range p.Tags {
		tags += len(name) + len(value)
	}
	if tags > MaxTagBytes {
		return ErrLimitExceeded.WithMessage("the tags have %d bytes, at most %d are allowed", tags, MaxTagBytes)
	}
	if n := len(idempotencyKey); n > MaxIdempotencyKeyLen {
		return ErrLimitExceeded.WithMessage("the idempotency key has %d bytes, at most %d are allowed", n, MaxIdempotencyKeyLen)
	}
	return nil
}

func checkName(what, s string, most int) error {
	if len(s) > most {
		return fmt.Errorf("%s has %d bytes, at most %d are allowed", what, len(s), most)
	}
	if !utf8.ValidString(s) {
		return fmt.Errorf("%s is not valid UTF-8", what)
	}
	for _, r := range s {
		if r < 0x20 || r == 0x7f {
			return fmt.Errorf("%s has a control character (%U)", what, r)
		}
	}
	return nil
}
