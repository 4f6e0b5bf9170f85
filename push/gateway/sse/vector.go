package sse

import (
	"hash/fnv"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-push/sluice/push"
)

const (
	// MaxID is how many bytes an event id has at most.
	MaxID = 1 << 10
	// LostID is the event id that stands for one that would be longer. A client that comes back with it is told that it cannot go on.
	LostID = "!"

	plainVector = 128 // bytes of the longest that is plain text
	packedMark  = '*' // what a packed one begins with, and no plain one
)

// lostEpoch is an epoch that no channel has: a client that comes from there is told that it cannot go on.
const lostEpoch = "lost"

// vector is a client's position in each of its channels, which is the id of its events. A short one is plain text,
//
//	CHANNEL=EPOCH:OFFSET&…
//
// with names and epochs escaped as in URLs. A longer one is packed, which takes a few bytes for each channel. The names are in the URL, so that a
// check of them will do; channels next to each other in their order mostly share an epoch, and are not far from each other:
//
//	*CHECK:EPOCH:COUNT NEWEST BEHIND BEHIND …:EPOCH:…
//
// CHECK, COUNT, NEWEST and how far each channel is behind that are numbers in digits of five bits, the lowest first, of which all but the last are
// marked; *N for an epoch is that of run N.
type vector struct {
	parts []part // in the order of names once all subscriptions have begun
}

type part struct {
	channel string
	epoch   string
	offset  uint64
	prefix  string // escaped, up to the offset
}

// move notes where the client is in a channel.
func (v *vector) move(channel string, at push.Position) {
	for i := range v.parts {
		p := &v.parts[i]
		if p.channel != channel {
			continue
		}
		p.offset = at.Offset
		if p.epoch != at.Epoch {
			p.epoch, p.prefix = at.Epoch, prefixOf(channel, at.Epoch)
		}
		return
	}
	v.parts = append(v.parts, part{channel, at.Epoch, at.Offset, prefixOf(channel, at.Epoch)})
}

func prefixOf(channel, epoch string) string {
	return url.QueryEscape(channel) + "=" + url.QueryEscape(epoch) + ":"
}

// append appends the vector as an event id, or nothing when that would be too long.
func (v *vector) append(dst []byte) []byte {
	start := len(dst)
	for i := range v.parts {
		if i > 0 {
			dst = append(dst, '&')
		}
		dst = append(dst, v.parts[i].prefix...)
		dst = strconv.AppendUint(dst, v.parts[i].offset, 10)
		if len(dst)-start > plainVector {
			dst = v.appendPacked(dst[:start])
			break
		}
	}
	if len(dst)-start > MaxID {
		return dst[:start]
	}
	return dst
}

func (v *vector) appendPacked(dst []byte) []byte {
	dst = appendNumber(append(dst, packedMark), v.check())
	var epochs []string
	for i := 0; i < len(v.parts); {
		epoch, newest := v.parts[i].epoch, v.parts[i].offset
		end := i + 1
		for ; end < len(v.parts) && v.parts[end].epoch == epoch; end++ {
			newest = max(newest, v.parts[end].offset)
		}
		dst = append(dst, ':')
		if known := slices.Index(epochs, epoch); known >= 0 {
			dst = appendNumber(append(dst, '*'), uint64(known)) //nolint:gosec // small
		} else {
			dst = append(dst, url.QueryEscape(epoch)...)
		}
		epochs = append(epochs, epoch)
		dst = appendNumber(append(dst, ':'), uint64(end-i)) //nolint:gosec // small
		dst = appendNumber(dst, newest)
		for ; i < end; i++ {
			dst = appendNumber(dst, newest-v.parts[i].offset)
		}
	}
	return dst
}

// check is a number that another set of channels hardly has.
func (v *vector) check() uint64 {
	names := make([]string, len(v.parts))
	for i := range v.parts {
		names[i] = v.parts[i].channel
	}
	return checkOf(names)
}

func checkOf(names []string) uint64 {
	h := fnv.New32a()
	for _, name := range names {
		_, _ = h.Write([]byte(name))
		_, _ = h.Write([]byte{0}) // no name has it
	}
	return uint64(h.Sum32())
}

// digits are of five bits each, first those of the last digit of a number, then of the others.
const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZ012345abcdefghijklmnopqrstuvwxyz6789-_"

func appendNumber(dst []byte, n uint64) []byte {
	for ; n >= 32; n >>= 5 {
		dst = append(dst, digits[32+n&31])
	}
	return append(dst, digits[n])
}

// cutNumber reads a number from the beginning of s. It reports false if there is none.
func cutNumber(s string) (n uint64, rest string, ok bool) {
	for i := range len(s) {
		d := strings.IndexByte(digits, s[i])
		if d < 0 || i > 12 {
			return 0, "", false
		}
		n |= uint64(d&31) << (5 * i) //nolint:gosec // not negative
		if d < 32 {
			return n, s[i+1:], true
		}
	}
	return 0, "", false
}

// parseVector reads the event id of a client of some channels, whose names are sorted. Of a plain one, what it does not understand is left out: the
// client starts fresh there. One that cannot be read otherwise is lost: the client is told that it missed something everywhere.
func parseVector(id string, names []string) map[string]push.Position {
	if id == LostID || id != "" && id[0] == packedMark {
		out, ok := parsePacked(id, names)
		if !ok {
			for _, name := range names {
				out[name] = push.Position{Epoch: lostEpoch}
			}
		}
		return out
	}
	return parsePlain(id)
}

// parsePacked reports false if the id is not one of these channels.
func parsePacked(id string, names []string) (out map[string]push.Position, ok bool) {
	out = map[string]push.Position{}
	check, rest, ok := cutNumber(strings.TrimPrefix(id, string(packedMark)))
	if !ok || check != checkOf(names) || len(id) > MaxID {
		return out, false
	}
	var epochs []string
	for left := names; len(left) > 0 || rest != ""; {
		colon, text, _ := strings.Cut(rest, ":")
		escaped, numbers, found := strings.Cut(text, ":")
		epoch, ok := epochOf(escaped, epochs)
		count, numbers, ok2 := cutNumber(numbers)
		newest, numbers, ok3 := cutNumber(numbers)
		if !found || colon != "" || !ok || !ok2 || !ok3 || count == 0 || count > uint64(len(left)) || newest > push.MaxOffset {
			return map[string]push.Position{}, false
		}
		epochs = append(epochs, epoch)
		for _, name := range left[:count] {
			var behind uint64
			if behind, numbers, ok = cutNumber(numbers); !ok || behind > newest {
				return map[string]push.Position{}, false
			}
			out[name] = push.Position{Epoch: epoch, Offset: newest - behind}
		}
		left, rest = left[count:], numbers
	}
	return out, true
}

// epochOf undoes how an epoch is written behind those of earlier runs.
func epochOf(text string, earlier []string) (epoch string, ok bool) {
	if index, isKnown := strings.CutPrefix(text, "*"); isKnown {
		n, rest, ok := cutNumber(index)
		if !ok || rest != "" || n >= uint64(len(earlier)) {
			return "", false
		}
		return earlier[n], true
	}
	epoch, err := url.QueryUnescape(text)
	return epoch, err == nil
}

// parsePlain reads a vector that is plain text.
func parsePlain(id string) map[string]push.Position {
	out := map[string]push.Position{}
	if len(id) > MaxID {
		return out
	}
	for item := range strings.SplitSeq(id, "&") {
		name, at, _ := strings.Cut(item, "=")
		epoch, offset, _ := strings.Cut(at, ":")
		channel, err1 := url.QueryUnescape(name)
		epoch, err2 := url.QueryUnescape(epoch)
		n, err3 := strconv.ParseUint(offset, 10, 64)
		if err1 == nil && err2 == nil && err3 == nil && channel != "" && n <= push.MaxOffset {
			out[channel] = push.Position{Epoch: epoch, Offset: n}
		}
	}
	return out
}
