package nats_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/broker/nats"
)

// awkward generates names that are likely to go wrong: of few letters, most of which have a meaning to NATS or a file system.
func awkward() *rapid.Generator[string] {
	letters := rapid.SampledFrom([]string{"a", "A", ".", "*", ">", " ", "%", "/", "\\", "\x00", "\x7f", "\t", "\r\n", "ä", "\xff", "2", "5", "c", "_", "-", ":"})
	return rapid.Custom(func(t *rapid.T) string { return strings.Join(rapid.SliceOfN(letters, 0, 6).Draw(t, "letters"), "") })
}

// isToken reports whether a string can be one token of a subject and the name of a folder.
func isToken(s string) bool {
	return s != "" && !strings.ContainsAny(s, ".*>/\\ ") && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// matches reports whether a subject matches a filter.
func matches(filter, subject string) bool {
	f, s := strings.Split(filter, "."), strings.Split(subject, ".")
	for i := range f {
		if f[i] == ">" {
			return len(s) > i
		}
		if i >= len(s) || f[i] != "*" && f[i] != s[i] {
			return false
		}
	}
	return len(f) == len(s)
}

// FuzzNames: every name gives one token, from which it can be decoded, and no other name gives the same token.
func FuzzNames(f *testing.F) {
	for _, name := range []string{"", "%", "%c", "%25", "a.b", "*", ">", "a b", "\x00", "%zz", "ä", "\xff", "~", "%2", "%2e", "%2E"} {
		f.Add(name, "other")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		token := nats.Token(a)
		if !isToken(token) || token == "%c" {
			t.Fatalf("%q gives the token %q", a, token)
		}
		if back := nats.NameOf(token); back != a {
			t.Fatalf("%q comes back as %q", a, back)
		}
		if a != b && token == nats.Token(b) {
			t.Fatalf("%q and %q are the same", a, b)
		}
		_ = nats.NameOf(a) // other programs may write any token
		value := nats.EscapeValue(a)
		if strings.TrimSpace(value) != value && utf8.ValidString(a) || strings.ContainsAny(value, "\r\n\x00") {
			t.Fatalf("%q gives the header %q", a, value)
		}
		if back := nats.Unescape(value); back != a {
			t.Fatalf("%q comes back from a header as %q", a, back)
		}
	})
}

// TestNamesAreDistinct: the same for names that are easily confused, and for the names of streams.
func TestNamesAreDistinct(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := awkward().Draw(t, "a"), awkward().Draw(t, "b")
		if (nats.Token(a) == nats.Token(b)) != (a == b) || nats.NameOf(nats.Token(a)) != a {
			t.Fatalf("%q and %q: %q and %q", a, b, nats.Token(a), nats.Token(b))
		}
		p := broker.Partition{Namespace: a, Index: rapid.IntRange(0, 20).Draw(t, "a")}
		q := broker.Partition{Namespace: b, Index: rapid.IntRange(0, 20).Draw(t, "b")}
		if name := nats.StreamName(p); !isToken(name) || (name == nats.StreamName(q)) != (p == q) {
			t.Fatalf("%v and %v: %q and %q", p, q, name, nats.StreamName(q))
		}
	})
}

// TestFilters: the subject of a publication matches the filter of its channel, and no other.
func TestFilters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ns := broker.Namespace{
			Name: awkward().Draw(t, "namespace"), Mode: rapid.SampledFrom([]push.Mode{push.Stream, push.Value, push.Table}).Draw(t, "mode"),
			Partitions: 1,
		}
		codec := nats.NewCodec(ns, nil)
		mine, other := ns.Name+":"+awkward().Draw(t, "mine"), ns.Name+":"+awkward().Draw(t, "other")
		for _, channel := range []string{mine, other} {
			for _, op := range []push.Op{push.Set, push.Clear} {
				m := broker.Message{Channel: channel, Publication: push.Publication{Op: op, Key: awkward().Draw(t, "key")}}
				msg, err := codec.Encode(&m, "")
				if err != nil {
					t.Fatal(err)
				}
				if matches(codec.Filter(mine), msg.Subject) != (channel == mine) {
					t.Fatalf("the filter %q of %q, and %q of %q", codec.Filter(mine), mine, msg.Subject, channel)
				}
				if op == push.Set && nats.Subject(ns, channel, m.Key) != msg.Subject {
					t.Fatalf("others publish to %q, we do to %q", nats.Subject(ns, channel, m.Key), msg.Subject)
				}
			}
		}
	})
}

// FuzzLeases: a key can be decoded from its subject, no other key has that subject, and every prefix of the key finds it.
func FuzzLeases(f *testing.F) {
	for _, key := range []string{"", "/", "\x00", "presence/a:b\x00client", "node/n1", "a/b/c\x00d\x00e", "a\x00b/c", "//", "/\x00", "%"} {
		f.Add(key, "other")
	}
	f.Fuzz(func(t *testing.T, key, other string) { checkLease(t, key, other) })
}

// TestLeaseNames: the same for keys that are easily confused.
func TestLeaseNames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { checkLease(t, awkward().Draw(t, "key"), awkward().Draw(t, "other")) })
}

func checkLease(t interface{ Fatalf(string, ...any) }, key, other string) {
	subject := nats.LeaseSubject(key)
	for token := range strings.SplitSeq(subject, ".") {
		if !isToken(token) {
			t.Fatalf("%q gives the subject %q", key, subject)
		}
	}
	if back := nats.LeaseKey(subject); back != key {
		t.Fatalf("%q comes back as %q", key, back)
	}
	if key != other && subject == nats.LeaseSubject(other) {
		t.Fatalf("%q and %q are the same", key, other)
	}
	for n := range len(key) + 1 {
		if filter := nats.LeaseFilter(key[:n]); !matches(filter, subject) {
			t.Fatalf("the filter %q of %q does not find %q of %q", filter, key[:n], subject, key)
		}
	}
}
