package config

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Duration is a length of time, written with units such as "10m", "1h30m" or "250ms".
type Duration time.Duration

// UnmarshalText accepts the format of [time.ParseDuration]: a number needs a unit, except 0.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%s is not a duration: use a number and a unit, such as 250ms, 10s, 5m or 1h30m", quote(string(text)))
	}
	*d = Duration(v)
	return nil
}

// MarshalText returns the duration as String does.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// String returns the duration without parts that are zero: "10m", not "10m0s".
func (d Duration) String() string {
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// Sync is the interval at which written data is synced to the disk: a [Duration], or [SyncAlways].
type Sync time.Duration

// SyncAlways is written "always": a publication is synced before it is acknowledged.
const SyncAlways Sync = -1

// UnmarshalText accepts a duration and "always".
func (s *Sync) UnmarshalText(text []byte) error {
	if string(text) == "always" {
		*s = SyncAlways
		return nil
	}
	var d Duration
	if err := d.UnmarshalText(text); err != nil {
		return fmt.Errorf("%s is not valid: use always, or a duration such as 10s or 2m", quote(string(text)))
	}
	*s = Sync(d)
	return nil
}

// MarshalText returns the text that UnmarshalText accepts.
func (s Sync) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// String returns "always" or the duration.
func (s Sync) String() string {
	if s == SyncAlways {
		return "always"
	}
	return Duration(s).String()
}

// Durability says whether data survives the process: true, false, or auto, which means true if the broker supports it.
type Durability uint8

// The durabilities.
const (
	DurableIfPossible Durability = iota
	Durable
	NotDurable
)

// UnmarshalText accepts true, false and auto.
func (d *Durability) UnmarshalText(text []byte) error {
	switch string(text) {
	case "auto":
		*d = DurableIfPossible
	case "true":
		*d = Durable
	case "false":
		*d = NotDurable
	default:
		return fmt.Errorf("%s is not valid: use true, false or auto", quote(string(text)))
	}
	return nil
}

// With returns whether data survives the process with a kind of broker.
func (d Durability) With(kind string) bool {
	return d == Durable || d == DurableIfPossible && kind != BrokerMemory
}

// Bytes is an amount of memory or data, written as a plain number or with a unit: B, KiB, MiB, GiB (powers of 1024) or kB, KB,
// MB, GB (powers of 1000).
type Bytes int64

// byteUnits are ordered such that no unit is a suffix of a later one.
var byteUnits = [...]struct {
	name string
	size int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"B", 1}}

// UnmarshalText accepts a whole number that is not negative, with an optional unit, which a space may precede.
func (b *Bytes) UnmarshalText(text []byte) error {
	number, factor := string(text), int64(1)
	for _, u := range byteUnits {
		if rest, ok := strings.CutSuffix(number, u.name); ok {
			number, factor = strings.TrimSuffix(rest, " "), u.size
			break
		}
	}
	v, err := strconv.ParseUint(number, 10, 63)
	if errors.Is(err, strconv.ErrRange) || err == nil && v > uint64(math.MaxInt64/factor) {
		return fmt.Errorf("%s is too large", quote(string(text)))
	}
	if err != nil {
		return fmt.Errorf("%s is not a size: use bytes or a unit, such as 65536, 64KiB, 16MiB or 1MB", quote(string(text)))
	}
	*b = Bytes(int64(v) * factor)
	return nil
}

// MarshalText returns the size as String does.
func (b Bytes) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// String returns the size in the largest binary unit in which it is whole: "64KiB".
func (b Bytes) String() string {
	for i := 2; i >= 0; i-- {
		if u := byteUnits[i]; b != 0 && int64(b)%u.size == 0 {
			return strconv.FormatInt(int64(b)/u.size, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(b), 10)
}

// Hash is the SHA-256 of a key of the HTTP API, which recognises the key without containing it. Keys are long and random, not chosen by people,
// so a fast hash without salt suffices. The zero Hash matches no key. A Hash is never printed: all verbs of package fmt, and its text form, show
// a placeholder.
type Hash [sha256.Size]byte

const (
	hashPrefix   = "sha256:"
	hashRedacted = "sha256:(hidden)"
)

// HashKey returns the hash of an API key in the form for a configuration: "sha256:" and 64 hexadecimal digits.
func HashKey(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hashPrefix + hex.EncodeToString(sum[:])
}

// UnmarshalText accepts the result of [HashKey]. The error does not repeat the text, which may be the key itself, pasted by mistake.
func (h *Hash) UnmarshalText(text []byte) error {
	digits, ok := strings.CutPrefix(string(text), hashPrefix)
	if !ok {
		return fmt.Errorf("not a key hash: it must begin with %q, as `sluice config hash-key` prints it", hashPrefix)
	}
	if len(digits) != 2*sha256.Size {
		return fmt.Errorf("not a key hash: %q must be followed by %[3]d hexadecimal digits, not %[2]d characters", hashPrefix, len(digits), 2*sha256.Size)
	}
	var v Hash
	if _, err := hex.Decode(v[:], []byte(digits)); err != nil {
		return fmt.Errorf("not a key hash: only hexadecimal digits may follow %q", hashPrefix)
	}
	*h = v
	return nil
}

// Match reports whether key is the key with this hash. The time does not depend on how much of the key is right.
func (h Hash) Match(key string) bool {
	sum := sha256.Sum256([]byte(key))
	return h != Hash{} && subtle.ConstantTimeCompare(sum[:], h[:]) == 1
}

// MarshalText returns a placeholder.
func (h Hash) MarshalText() ([]byte, error) { return []byte(hashRedacted), nil }

// String returns a placeholder.
func (h Hash) String() string { return hashRedacted }

// Format writes a placeholder, whatever the verb.
func (h Hash) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(hashRedacted)) }

// UnmarshalText accepts publish, read and control.
func (s *Scope) UnmarshalText(text []byte) error {
	return oneOf(s, text, "scope", ScopePublish, ScopeRead, ScopeControl)
}

// UnmarshalText accepts anonymous, user and api.
func (c *Caller) UnmarshalText(text []byte) error {
	return oneOf(c, text, "caller", CallerAnonymous, CallerUser, CallerAPI)
}

// oneOf sets dst to the value whose text is given.
func oneOf[T ~string](dst *T, text []byte, what string, values ...T) error {
	names := make([]string, len(values))
	for i, v := range values {
		if string(text) == string(v) {
			*dst = v
			return nil
		}
		names[i] = string(v)
	}
	return fmt.Errorf("unknown %s %s: use %s", what, quote(string(text)), choices(names))
}

// choices joins names for a sentence: "a, b or c".
func choices[T ~string](names []T) string {
	var b strings.Builder
	for i, name := range names {
		switch i {
		case 0:
		case len(names) - 1:
			b.WriteString(" or ")
		default:
			b.WriteString(", ")
		}
		b.WriteString(string(name))
	}
	return b.String()
}

// quote returns s in quotes for an error message, shortened to fit a line.
func quote(s string) string {
	const most = 40
	if len(s) > most {
		return strconv.QuoteToASCII(s[:most]) + "…"
	}
	return strconv.Quote(s)
}
