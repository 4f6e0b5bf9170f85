package main

import (
	"encoding/json"
	"errors"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/sluice-push/sluice/session"
	"github.com/sluice-push/sluice/websocket"
)

// Close codes of the chat's own, and how many a room holds.
const (
	closeBadName = 4000
	closeTaken   = 4001
	closeSlow    = 4008
	maxMembers   = 100
)

// event is what a client is told.
type event struct {
	Kind string   `json:"kind"`           // welcome, came, left or said
	Name string   `json:"name"`           // who; the client itself in a welcome
	Text string   `json:"text,omitempty"` // what was said
	Here []string `json:"here,omitempty"` // who is there now, by name; not when something was said
	Turn int      `json:"turn,omitempty"` // counts what happened to Here: events may overtake each other, and the highest is the newest
}

// chat is the rooms. Its functions are those of the connections' handler, and run for many connections at a time. No lock is held while
// something is sent, so two who talk at the same moment may be heard in either order; what one of them says is heard in the order in
// which it was said.
type chat struct {
	mu    sync.Mutex
	rooms map[string]*room // those in which somebody is
}

// room is who is there, under which name. It is guarded by the mutex of the chat.
type room struct {
	members map[string]*websocket.Conn
	turn    int
}

// member is the state of a connection: where it is, and as whom. It does not change.
type member struct{ room, name string }

// memberOf returns the member that a connection is, or wants to be, if its names were good.
func memberOf(c *websocket.Conn) (*member, bool) {
	m, ok := c.Value().(*member)
	return m, ok
}

// newServer makes a chat and its server.
func newServer(o *websocket.Options) *websocket.Server {
	h := &chat{rooms: make(map[string]*room)}
	return websocket.NewServer(&websocket.Handler{Open: h.open, Message: h.message, Drain: drain, Close: h.close}, o)
}

var nameForm = regexp.MustCompile(`^[\pL\pN_-]{1,20}$`)

// open lets somebody in. A browser cannot see why a handshake was refused, but it sees a close code: that is why the name is checked here
// and not in Options.Accept.
func (h *chat) open(c *websocket.Conn, r *websocket.Request) error {
	query, err := url.ParseQuery(r.RawQuery)
	m := &member{room: strings.TrimPrefix(r.Path, "/live/"), name: query.Get("name")}
	if err != nil || !nameForm.MatchString(m.room) || !nameForm.MatchString(m.name) {
		return &websocket.CloseError{Code: closeBadName, Reason: "rooms and names have 1 to 20 letters, digits, dashes and underscores"}
	}
	m.room, m.name = strings.Clone(m.room), strings.Clone(m.name) // they are parts of the request
	c.SetValue(m)                                                 // before others know of it
	came, err := h.enter(c, m)
	if err != nil {
		return err
	}
	welcome := came
	welcome.Kind = "welcome"
	_ = c.Send(websocket.OpText, encode(welcome)) // what fails here is for Close
	h.tell(m.room, came, m.name)
	return nil
}

// message is somebody talking.
func (h *chat) message(c *websocket.Conn, msg websocket.Message) {
	m, ok := memberOf(c)
	if text := strings.TrimSpace(string(msg.Data)); ok && text != "" && msg.Op == websocket.OpText {
		h.tell(m.room, event{Kind: "said", Name: m.name, Text: text}, "")
	}
}

// close lets somebody out, however the connection has ended. It is called for those who were not let in, too.
func (h *chat) close(c *websocket.Conn, _ *session.CloseInfo) {
	if m, ok := memberOf(c); ok {
		h.leave(c, m)
	}
}

// drain is called for everybody when the server is about to end.
func drain(c *websocket.Conn) { _ = c.Close(websocket.CloseGoingAway, "the server ends") }

// enter makes a connection a member.
func (h *chat) enter(c *websocket.Conn, m *member) (event, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.rooms[m.room]
	if r == nil {
		r = &room{members: make(map[string]*websocket.Conn)}
		h.rooms[m.room] = r
	}
	switch {
	case r.members[m.name] != nil:
		return event{}, &websocket.CloseError{Code: closeTaken, Reason: m.name + " is taken"}
	case len(r.members) == maxMembers:
		return event{}, &websocket.CloseError{Code: websocket.CloseTryAgainLater, Reason: "the room is full"}
	}
	r.members[m.name] = c
	return r.changed("came", m.name), nil
}

// leave ends a membership, if it has not ended yet, and tells the others.
func (h *chat) leave(c *websocket.Conn, m *member) {
	h.mu.Lock()
	r := h.rooms[m.room]
	if r == nil || r.members[m.name] != c {
		h.mu.Unlock()
		return
	}
	delete(r.members, m.name)
	if len(r.members) == 0 {
		delete(h.rooms, m.room)
	}
	left := r.changed("left", m.name)
	h.mu.Unlock()
	h.tell(m.room, left, "")
}

// changed notes that somebody came or left.
func (r *room) changed(kind, name string) event {
	r.turn++
	return event{Kind: kind, Name: name, Here: slices.Sorted(maps.Keys(r.members)), Turn: r.turn}
}

// tell sends an event to all members but one. It is encoded, and compressed, once, and the same bytes are shared by all connections. Who
// has no room for it reads more slowly than the others talk, and is sent away.
func (h *chat) tell(room string, e event, but string) {
	h.mu.Lock()
	var to []*websocket.Conn
	if r := h.rooms[room]; r != nil {
		for name, c := range r.members {
			if name != but {
				to = append(to, c)
			}
		}
	}
	h.mu.Unlock()
	p := websocket.Prepare(websocket.OpText, encode(e))
	websocket.Broadcast(p, slices.Values(to), func(c *websocket.Conn, err error) {
		if errors.Is(err, session.ErrQueueFull) {
			_ = c.Close(closeSlow, "you read more slowly than the others talk")
			if m, ok := memberOf(c); ok {
				h.leave(c, m)
			}
		}
	})
}

// encode returns an event as JSON.
func encode(e event) []byte {
	text, err := json.Marshal(e)
	if err != nil {
		panic(err) // strings and a number
	}
	return text
}
