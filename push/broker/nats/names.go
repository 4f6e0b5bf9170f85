package nats

import (
	"strconv"
	"strings"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
)

const hexDigits = "0123456789ABCDEF"

// special reports whether a byte has to be escaped in a token of a subject, or in the name of a stream, which is also the name of a folder.
func special(c byte) bool {
	switch c {
	case '.', '*', '>', '/', '\\', '%', 0x7f:
		return true
	}
	return c <= ' '
}

// appendToken appends a name as a token of a subject. Different names give different tokens, and no token is empty.
func appendToken(dst []byte, name string) []byte {
	if name == "" {
		return append(dst, '%')
	}
	return appendEscaped(dst, name, special)
}

// appendEscaped appends s, with the bytes for which isSpecial is true written as '%' and two hexadecimal digits. It has to be true for '%'.
func appendEscaped(dst []byte, s string, isSpecial func(byte) bool) []byte {
	for i := range len(s) {
		if c := s[i]; isSpecial(c) {
			dst = append(dst, '%', hexDigits[c>>4], hexDigits[c&15])
		} else {
			dst = append(dst, c)
		}
	}
	return dst
}

// unescape is the inverse of appendEscaped. A '%' that begins no escape stands for itself, because other programs may write names, too.
func unescape(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			high, low := strings.IndexByte(hexDigits, s[i+1]), strings.IndexByte(hexDigits, s[i+2])
			if high >= 0 && low >= 0 {
				out = append(out, byte(high<<4|low))
				i += 2
				continue
			}
		}
		out = append(out, s[i])
	}
	return string(out)
}

// nameOf is the inverse of appendToken.
func nameOf(token string) string {
	if token == "%" {
		return ""
	}
	return unescape(token)
}

// clearToken takes the place of the row's key in the subject of a clear. No key is encoded like that.
const clearToken = "%c"

// streamName returns the name of a partition's stream. It has = in place of %, because nats-server uses names as format strings when it writes
// its log.
func streamName(p broker.Partition) string { return withoutPercent.Replace(oldStreamName(p)) }

var withoutPercent = strings.NewReplacer("%", "=", "=", "=3D")

// oldStreamName returns the name that earlier versions gave the stream, with %.
func oldStreamName(p broker.Partition) string {
	name := appendToken([]byte("sluice_"), p.Namespace)
	return string(strconv.AppendInt(append(name, '_'), int64(p.Index), 10))
}

// subjectPrefix returns the beginning of the subjects of a partition.
func subjectPrefix(ns broker.Namespace, index int) string {
	out := append(appendToken([]byte("sluice."), ns.Name), '.')
	if ns.Mode == push.Stream {
		out = append(out, 's')
	} else {
		out = append(out, 't')
	}
	if ns.Partitions > 1 {
		out = strconv.AppendInt(out, int64(index), 10)
	}
	return string(append(out, '.'))
}

// Subject returns the subject to which a program without Sluice publishes to a channel. key is the key of the row in table mode, and is not used
// otherwise.
func Subject(ns broker.Namespace, channel, key string) string {
	prefix := subjectPrefix(ns, broker.PartitionOf(channel, ns.Partitions).Index)
	return subject(prefix, ns.Mode, channel, &push.Publication{Key: key})
}

// subject returns the subject of a publication.
func subject(prefix string, mode push.Mode, channel string, p *push.Publication) string {
	out := appendToken([]byte(prefix), channel)
	switch {
	case mode == push.Stream:
		return string(out)
	case p.Op == push.Clear:
		return string(out) + "." + clearToken
	case mode == push.Value:
		return string(out) + ".%"
	}
	return string(appendToken(append(out, '.'), p.Key))
}

// filter returns the subject that matches all publications of a channel, and no other.
func filter(prefix string, mode push.Mode, channel string) string {
	out := appendToken([]byte(prefix), channel)
	if mode != push.Stream {
		out = append(out, ".>"...)
	}
	return string(out)
}

// splitSubject returns the channel of a subject below prefix, and the token of its row.
func splitSubject(prefix string, mode push.Mode, subj string) (channel, row string, ok bool) {
	rest, found := strings.CutPrefix(subj, prefix)
	token, row, hasRow := strings.Cut(rest, ".")
	if !found || hasRow != (mode != push.Stream) || strings.Contains(row, ".") {
		return "", "", false
	}
	return nameOf(token), row, true
}
