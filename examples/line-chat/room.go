package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unicode"

	"github.com/sluice-push/sluice/session"
)

// room is who is there, under which name. Its functions are those of the sessions' handler, and run for many sessions at a time. No
// lock is held while something is written, so two who talk at the same moment may be heard in either order; what one of them
// says is heard in the order in which it was said.
type room struct {
	srv *session.Server

	mu    sync.Mutex
	names map[string]*member
	guest int // the number of the last guest
}

// member is the state of a session.
type member struct {
	name   string        // guarded by room.mu
	missed atomic.Uint64 // lines that were not delivered because the peer reads slowly
}

// open gives a peer a name and greets it. The session is among those of the server already, but it is a member only when this has
// returned: it does not hear that it came.
func (r *room) open(s *session.Session) (*member, error) {
	m := new(member)
	r.mu.Lock()
	for m.name == "" || r.names[m.name] != nil {
		r.guest++
		m.name = fmt.Sprintf("guest%d", r.guest)
	}
	r.names[m.name] = m
	name := m.name
	r.mu.Unlock()
	tell(s, "you are "+name+"; there are /name NAME, /who and /quit")
	r.say(s, "* "+name+" has come")
	return m, nil
}

// message handles a line.
func (r *room) message(s *session.Session, m *member, line []byte) {
	text := clean(line)
	word, rest, _ := strings.Cut(text, " ")
	switch {
	case text == "":
	case word == "/name":
		r.rename(s, m, strings.TrimSpace(rest))
	case word == "/who":
		tell(s, r.who())
	case word == "/quit":
		s.End([]byte("* goodbye\n"), nil)
	case strings.HasPrefix(word, "/"):
		tell(s, "there is no "+word)
	default:
		r.say(s, "<"+r.nameOf(m)+"> "+text)
	}
}

// close gives the name back, however the session has ended.
func (r *room) close(s *session.Session, m *member, _ *session.CloseInfo) {
	r.mu.Lock()
	delete(r.names, m.name)
	name := m.name
	r.mu.Unlock()
	r.say(s, "* "+name+" has left")
}

// drain is called for everybody when the server is about to end.
func (r *room) drain(s *session.Session, _ *member) { s.End([]byte("* the server ends\n"), nil) }

// dropped counts what a slow reader misses.
func dropped(s *session.Session, lines int) {
	if m, ok := s.Value().(*member); ok {
		m.missed.Add(uint64(lines))
	}
}

// say writes a line to all but one. It is encoded once, and the same bytes are shared by all sessions. That one of them did not
// take it is for the policy of the server, and for Close, to deal with.
func (r *room) say(from *session.Session, line string) {
	frame := []byte(line + "\n")
	for s := range r.srv.Sessions() {
		if _, ok := s.Value().(*member); ok && s != from {
			_ = s.WriteShared(frame)
		}
	}
}

// tell writes a line of the server to one.
func tell(s *session.Session, line string) { _ = s.Send([]byte("* " + line)) }

// nameOf returns the name of a member.
func (r *room) nameOf(m *member) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return m.name
}

// who lists the members by name.
func (r *room) who() string {
	var list []string
	r.mu.Lock()
	for name, m := range r.names {
		if missed := m.missed.Load(); missed > 0 {
			name += fmt.Sprintf(" (missed %d)", missed)
		}
		list = append(list, name)
	}
	r.mu.Unlock()
	slices.Sort(list)
	return fmt.Sprintf("%d here: %s", len(list), strings.Join(list, ", "))
}

var nameForm = regexp.MustCompile(`^[\pL\pN_-]{1,20}$`)

// rename changes the name of a member, if the new one is free.
func (r *room) rename(s *session.Session, m *member, name string) {
	if !nameForm.MatchString(name) {
		tell(s, "a name has 1 to 20 letters, digits, dashes and underscores")
		return
	}
	r.mu.Lock()
	taken := r.names[name] != nil
	old := m.name
	if !taken {
		delete(r.names, old)
		r.names[name], m.name = m, name
	}
	r.mu.Unlock()
	if taken {
		tell(s, name+" is taken")
		return
	}
	tell(s, "you are "+name)
	r.say(s, "* "+old+" is now "+name)
}

// clean returns a line without what would do something to the terminals of others: control characters and broken text.
func clean(line []byte) string {
	return strings.TrimSpace(strings.Map(func(c rune) rune {
		if c == '\t' {
			return ' '
		}
		if c == unicode.ReplacementChar || !unicode.IsPrint(c) {
			return -1
		}
		return c
	}, string(line)))
}
