package gateway

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/sluice-push/sluice/push"
)

// maxVector is the longest event id, in bytes.
const maxVector = 1 << 10

// vector is a client's position in each of its channels, written as an event id: "CHANNEL=EPOCH:OFFSET&…", with names and epochs
// escaped as in URLs, in the order in which the channels came up.
type vector struct {
	parts []part
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

// append appends the vector, or nothing when it is too long to be an event id.
func (v *vector) append(dst []byte) []byte {
	start := len(dst)
	for i := range v.parts {
		if i > 0 {
			dst = append(dst, '&')
		}
		dst = append(dst, v.parts[i].prefix...)
		dst = strconv.AppendUint(dst, v.parts[i].offset, 10)
		if len(dst)-start > maxVector {
			return dst[:start]
		}
	}
	return dst
}

// parseVector reads an event id. What it does not understand is left out: the client starts fresh there.
func parseVector(id string) map[string]push.Position {
	out := map[string]push.Position{}
	if len(id) > maxVector {
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
