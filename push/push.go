// Package push defines the types of the platform: the values that pass between brokers, hubs, gateways and the HTTP API, and the codes that tell
// clients what happened. Apart from the checks of names it has no behaviour.
//
// Clients subscribe to channels, which are named "namespace:name". A publication is one item in a channel. Its offset is its place in the
// channel, and its epoch names the generation of the channel's data that the offset belongs to. Epoch and offset together are a position.
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

	// MaxUserLen is the longest ID of a user, in bytes.
	MaxUserLen = 255

	// MaxKeyLen is the longest key of a publication, in bytes.
	MaxKeyLen = 255

	// MaxTagBytes is the largest total size of the names and values of a publication's tags, in bytes.
	MaxTagBytes = 16 << 10

	// MaxIdempotencyKeyLen is the longest idempotency key, in bytes.
	MaxIdempotencyKeyLen = 1 << 10
)

// Position is a place in a channel: an offset within an epoch. The zero Position is none.
type Position struct {
	Epoch  string // the generation of the channel's data; opaque, except to the source
	Offset uint64 // the reader has everything up to and including this offset
}

// Op is the effect of a publication on its channel.
type Op uint8

// The operations. In stream mode only Set occurs.
const (
	Set    Op = iota // add the publication, or in a table replace the row of the same key
	Remove           // remove the row of the same key; Data is empty
	Clear            // remove all rows and forget all history before it
)

// Publication is one item in a channel. Once it has been handed over, a publication and everything it refers to is immutable: all readers share
// it without copying.
type Publication struct {
	// Offset is assigned by the broker. Offsets increase within a channel, but not by one. They are at least 1 and at most [MaxOffset].
	Offset uint64
	// Key names the row in table mode. In stream mode it has no effect, and is passed on.
	Key string
	// Data is the payload; the JSON client protocol requires it to be one JSON value.
	Data []byte
	// Tags are the values that filters match on.
	Tags map[string]string
	// Info describes the client that published it. It is nil if the publication came from the server side.
	Info *ClientInfo
	// Time is when the broker accepted the publication, in Unix milliseconds.
	Time int64
	// Op is the publication's effect on the channel.
	Op Op
	// Delta says that Data is not the payload but the difference to the payload of the publication before, see [Delta]. It is set only on the
	// way to clients that asked for deltas.
	Delta bool
}

// Size returns the number of bytes that byte budgets and retention count for the publication: those of its data, key and tags.
func (p *Publication) Size() int {
	n := len(p.Key) + len(p.Data)
	for k, v := range p.Tags {
		n += len(k) + len(v)
	}
	return n
}

// ClientInfo describes a connected client to other clients, in presence and as the publisher of a publication. It is immutable once shared.
type ClientInfo struct {
	User     string // the user's ID; empty for anonymous clients
	Client   string // the identity of the connection
	ConnInfo []byte // JSON from the authentication of the connection, or nil
	ChanInfo []byte // JSON from the authorisation of the subscription, or nil
}

// PrivatePrefix begins the name of a private channel: a client needs a token for each. It comes before the namespace, and is no part of it.
const PrivatePrefix = "$"

// Namespace returns the part of a channel name before the first colon, or "" if there is no colon. A leading [PrivatePrefix] is left out.
func Namespace(channel string) string {
	ns, _, found := strings.Cut(strings.TrimPrefix(channel, PrivatePrefix), ":")
	if !found {
		return ""
	}
	return ns
}

// UnknownChannel returns an [ErrUnknownChannel] whose message names the namespace that does not exist.
func UnknownChannel(name string) error {
	if ns := Namespace(name); ns != "" {
		return ErrUnknownChannel.WithMessage("unknown channel: namespace %q is not configured", ns)
	}
	return ErrUnknownChannel.WithMessage("unknown channel: no namespace is configured for names without a colon")
}

// MatchChannel reports whether a channel's name matches a pattern, in which each * stands for any number of characters.
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

// CheckChannel returns an error unless a channel name is valid: 1 to [MaxChannelLen] bytes of UTF-8 without control characters, and no colon at
// the beginning, where a namespace has to stand.
func CheckChannel(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("channel name is empty")
	case name[0] == ':', strings.HasPrefix(name, PrivatePrefix+":"):
		return fmt.Errorf("channel name begins with a colon: write a namespace before it, or leave it out")
	}
	return checkName("channel name", name, MaxChannelLen)
}

// CheckUser returns an error unless a user's ID is valid: at most [MaxUserLen] bytes of UTF-8 without control characters. The empty one is that of
// anonymous clients.
func CheckUser(id string) error { return checkName("user", id, MaxUserLen) }

// CheckKey returns an error unless a publication's key is valid: at most [MaxKeyLen] bytes of UTF-8 without control characters. The empty key is
// valid: it is the one row of a value channel.
func CheckKey(key string) error { return checkName("key", key, MaxKeyLen) }

// CheckPublication returns an *[Error] if the key of a publication is not valid, or if its tags or its idempotency key are larger than brokers
// have to store. Otherwise it returns nil.
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
