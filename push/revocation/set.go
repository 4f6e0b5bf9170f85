// Package revocation takes tokens back before they end: single ones, all that a user has so far, or those of a blocked user.
//
// Every node follows one table, in which each revocation is a row, so that all nodes know it at once and a node that starts knows all of them. A
// revocation is kept until the tokens that it is about would have ended anyway; then the row is removed. The table survives a restart when the
// broker is durable.
//
// [Set] is what is revoked: pure, without a clock. [Book] keeps it in step with the table.
package revocation

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/auth"
)

// Kind says what an entry revokes.
type Kind uint8

// The kinds.
const (
	Token  Kind = iota // the token with an ID (jti)
	Tokens             // the tokens of a user that were issued before a time, and those that do not say when
	User               // a user is blocked: all tokens
)

var kindNames = [...]string{Token: "token", Tokens: "tokens", User: "user"}

// String returns the kind's name: token, tokens or user.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// UnmarshalText accepts the kind's name.
func (k *Kind) UnmarshalText(text []byte) error {
	for i, name := range kindNames {
		if string(text) == name {
			*k = Kind(i)
			return nil
		}
	}
	return fmt.Errorf("unknown kind of revocation %q", text)
}

// MarshalText returns the kind's name.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// Entry is one revocation.
type Entry struct {
	Kind Kind `json:"kind"`
	// ID is the token's ID, or the user.
	ID string `json:"id"`
	// Before is the time of Tokens, in Unix seconds: a token of the same second is revoked.
	Before int64 `json:"before,omitempty"`
	// Until is when the entry is forgotten, in Unix seconds; 0: never.
	Until int64 `json:"until,omitempty"`
}

// check returns an error unless the entry is valid.
func (e *Entry) check() error {
	switch {
	case e.ID == "":
		return errors.New("the user, or the ID of the token, is missing")
	case len(e.ID) > maxID:
		return fmt.Errorf("the ID has %d bytes, at most %d are allowed", len(e.ID), maxID)
	case e.Until < 0 || e.Before < 0:
		return errors.New("a time is negative")
	case e.Kind == Tokens && e.Before == 0:
		return errors.New("the time before which tokens were issued is missing")
	}
	return nil
}

const maxID = 1024

// id is what an entry is about.
type id struct {
	kind Kind
	name string
}

// key returns the key of the row for an entry. Keys are shorter than some IDs.
func (i id) key() string {
	name := i.name
	if len(name) > push.MaxKeyLen-len("tokens:") || push.CheckKey(name) != nil {
		sum := sha256.Sum256([]byte(name))
		name = "#" + hex.EncodeToString(sum[:])
	}
	return i.kind.String() + ":" + name
}

// Set is what is revoked. Its methods may be called concurrently. The zero Set is empty.
type Set struct {
	mu      sync.RWMutex
	entries map[id]Entry
	keys    map[string]id // by the key of the row
}

// Put adds the revocation of a row, or replaces it, and reports whether it changes anything. Data is that of the row.
func (s *Set) Put(key string, data []byte) (isNew bool, err error) {
	var e Entry
	if err := json.Unmarshal(data, &e); err != nil {
		return false, fmt.Errorf("a revocation is malformed: %w", err)
	}
	if err := e.check(); err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.entries == nil {
		s.entries, s.keys = map[id]Entry{}, map[string]id{}
	}
	i := id{e.Kind, e.ID}
	isNew = s.entries[i] != e
	s.entries[i], s.keys[key] = e, i
	return isNew, nil
}

// Remove removes the revocation of a row, if there is one.
func (s *Set) Remove(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.entries, s.keys[key])
	delete(s.keys, key)
}

// Keep removes all revocations but those of some rows.
func (s *Set) Keep(keys map[string]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, i := range s.keys {
		if !keys[key] {
			delete(s.entries, i)
			delete(s.keys, key)
		}
	}
}

// Len returns how many revocations there are.
func (s *Set) Len() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.entries)
}

// Revoked reports whether a token is revoked at a time.
func (s *Set) Revoked(t *auth.Token, now time.Time) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if len(s.entries) == 0 {
		return false
	}
	return t.ID != "" && s.has(id{Token, t.ID}, t, now) || t.User != "" && (s.has(id{User, t.User}, t, now) || s.has(id{Tokens, t.User}, t, now))
}

func (s *Set) has(i id, t *auth.Token, now time.Time) bool {
	e, ok := s.entries[i]
	return ok && e.revokes(t) && (e.Until == 0 || now.Unix() < e.Until)
}

// revokes reports whether an entry that is about a token revokes it.
func (e *Entry) revokes(t *auth.Token) bool {
	return e.Kind != Tokens || t.IssuedAt.IsZero() || t.IssuedAt.Unix() <= e.Before
}

// Over returns the keys of the rows whose time is over.
func (s *Set) Over(now time.Time) (keys []string) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for key, i := range s.keys {
		if e := s.entries[i]; e.Until != 0 && now.Unix() >= e.Until {
			keys = append(keys, key)
		}
	}
	return keys
}
