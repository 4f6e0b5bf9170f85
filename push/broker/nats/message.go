package nats

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	nats "github.com/nats-io/nats.go"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
)

// The headers of a publication.
const (
	headerKey     = "Sluice-Key"
	headerRemoved = "Sluice-Removed"
	headerCleared = "Sluice-Cleared"
	headerInfo    = "Sluice-Info"
	headerTag     = "Sluice-Tag-" // followed by the name of the tag
	headerMsgID   = "Nats-Msg-Id"
	headerTTL     = "Nats-TTL"
)

// ttlReserve is how long the store keeps an entry after the age at which loading stops to show it. The store goes by its own clock and rounding,
// and must never delete an entry that loading still counts as stored.
const ttlReserve = 30 * time.Second

// clientInfo is the encoding of a push.ClientInfo in its header. The JSON in it is stored as bytes, without a check.
type clientInfo struct {
	User     string `json:"user,omitempty"`
	Client   string `json:"client,omitempty"`
	ConnInfo []byte `json:"conn_info,omitempty"`
	ChanInfo []byte `json:"chan_info,omitempty"`
}

// notInValue reports whether a byte has to be escaped in the value of a header.
func notInValue(c byte) bool { return c < ' ' || c == 0x7f || c == '%' }

// notInName reports whether a byte has to be escaped in the name of a header.
func notInName(c byte) bool {
	return !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_')
}

// escapeValue encodes a string as the value of a header. It escapes a space at either end too, which would be lost.
func escapeValue(s string) string {
	out := string(appendEscaped(nil, s, notInValue))
	if rest, ok := strings.CutPrefix(out, " "); ok {
		out = "%20" + rest
	}
	if rest, ok := strings.CutSuffix(out, " "); ok {
		out = rest + "%20"
	}
	return out
}

// encode returns the message for a publication.
func (p *partition) encode(m *broker.Message, idempotencyKey string) (*nats.Msg, error) {
	mode := p.ns.Mode
	msg := &nats.Msg{Subject: subject(p.prefix, mode, m.Channel, &m.Publication), Data: m.Data, Header: nats.Header{}}
	h := msg.Header
	if m.Key != "" && (mode != push.Table || m.Op == push.Clear) {
		h[headerKey] = []string{escapeValue(m.Key)}
	}
	switch m.Op {
	case push.Set:
	case push.Remove:
		if mode == push.Stream {
			return nil, errors.New("mode stream has no removals")
		}
		h[headerRemoved] = []string{"1"}
		if age := p.historyOf().Age; age > 0 {
			h[headerTTL] = []string{strconv.FormatInt(int64((age+ttlReserve+time.Second-1)/time.Second), 10) + "s"}
		}
	case push.Clear:
		h[headerCleared] = []string{"1"}
	default:
		return nil, fmt.Errorf("unknown operation %d", m.Op)
	}
	for name, value := range m.Tags {
		h[headerTag+string(appendEscaped(nil, name, notInName))] = []string{escapeValue(value)}
	}
	if m.Info != nil {
		info, err := json.Marshal(clientInfo(*m.Info))
		if err != nil {
			return nil, fmt.Errorf("client info: %w", err)
		}
		h[headerInfo] = []string{escapeValue(string(info))}
	}
	if idempotencyKey != "" {
		h[headerMsgID] = []string{escapeValue(m.Channel + "\x00" + idempotencyKey)}
	}
	if len(h) == 0 {
		msg.Header = nil
	}
	return msg, nil
}

// stored is a message read from a stream.
type stored struct {
	subject string
	header  nats.Header
	data    []byte
	seq     uint64
	time    time.Time
}

// decode returns the publication in a message. It fails if the message is no publication, such as one whose subject Sluice would not write. Data
// is not copied, unless it had to be changed.
func (p *partition) decode(s *stored) (broker.Message, error) {
	var m broker.Message
	channel, row, ok := splitSubject(p.prefix, p.ns.Mode, s.subject)
	if !ok {
		return m, fmt.Errorf("subject %q belongs to no channel", s.subject)
	}
	m.Channel = channel
	m.Offset, m.Time = s.seq, s.time.UnixMilli()
	switch {
	case row == clearToken || value(s.header, headerCleared) != "":
		m.Op = push.Clear
	case value(s.header, headerRemoved) != "" && p.ns.Mode != push.Stream:
		m.Op = push.Remove
	}
	m.Key = unescape(value(s.header, headerKey))
	if p.ns.Mode == push.Table && row != clearToken {
		m.Key = nameOf(row)
	}
	if err := p.readHeader(&m, s.header); err != nil {
		return m, err
	}
	err := errors.Join(push.CheckChannel(m.Channel), push.CheckKey(m.Key))
	if err == nil && push.Namespace(channel) != p.ns.Name {
		err = fmt.Errorf("channel %q belongs to another namespace", channel)
	}
	if m.Op == push.Set {
		m.Data = s.data
	}
	if err == nil {
		err = p.check(&m)
	}
	return m, err
}

// check calls Options.Check for the data and the client info, which clients get as they are.
func (p *partition) check(m *broker.Message) error {
	check := p.broker.opts.Check
	if check == nil {
		return nil
	}
	var err error
	if m.Op == push.Set {
		if m.Data, err = check(m.Data); err != nil {
			return err
		}
	}
	if m.Info == nil {
		return nil
	}
	for _, text := range []*[]byte{&m.Info.ConnInfo, &m.Info.ChanInfo} {
		if len(*text) > 0 {
			if *text, err = check(*text); err != nil {
				return fmt.Errorf("header %s: %w", headerInfo, err)
			}
		}
	}
	return nil
}

// readHeader reads tags and client info.
func (p *partition) readHeader(m *broker.Message, h nats.Header) error {
	for name, values := range h {
		if tag, ok := strings.CutPrefix(name, headerTag); ok && len(values) > 0 {
			if m.Tags == nil {
				m.Tags = make(map[string]string)
			}
			m.Tags[unescape(tag)] = unescape(values[0])
		}
	}
	if text := value(h, headerInfo); text != "" {
		var info clientInfo
		if err := json.Unmarshal([]byte(unescape(text)), &info); err != nil {
			return fmt.Errorf("header %s: %w", headerInfo, err)
		}
		m.Info = new(push.ClientInfo(info))
	}
	return nil
}

// value returns the first value of a header. It does not fold the case of the name.
func value(h nats.Header, name string) string {
	if v := h[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}
