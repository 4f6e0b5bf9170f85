package carriertest

import (
	"bytes"
	"encoding/binary"
	stdjson "encoding/json"
	"errors"
	"fmt"

	"github.com/sluice-push/sluice/push/protocol"
	"github.com/sluice-push/sluice/push/protocol/json"
	"github.com/sluice-push/sluice/push/protocol/protobuf"
)

// Form is a form of the client protocol.
type Form uint8

// The forms.
const (
	JSON     Form = iota // one object a line
	Protobuf             // messages with their length before them
)

// appendCommand appends a command as frames have it.
func (f Form) appendCommand(dst []byte, c *protocol.Command) []byte {
	if f == Protobuf {
		return protobuf.AppendCommand(dst, c)
	}
	if len(dst) > 0 {
		dst = append(dst, '\n')
	}
	return json.AppendCommand(dst, c)
}

// connectRequest returns the connect request of a one-way client, which is no command.
func (f Form) connectRequest(r *protocol.ConnectRequest) []byte {
	c := f.appendCommand(nil, &protocol.Command{Kind: protocol.KindConnect, Connect: *r})
	if f == JSON {
		return bytes.TrimSuffix(bytes.TrimPrefix(c, []byte(`{"connect":`)), []byte{'}'})
	}
	message, _, _ := protobuf.Next(c) // our own
	_, n := binary.Uvarint(message)   // the tag of the request
	request, _, _ := protobuf.Next(message[n:])
	return request
}

// replies returns the replies in a frame. The pushes of one-way clients are made replies, and their pings empty ones.
func (f Form) replies(frame []byte, oneWay bool) (all []protocol.Reply, err error) {
	frame = bytes.Clone(frame) // replies share its memory
	for {
		message, rest, err := f.next(frame)
		if message == nil || err != nil {
			return all, err
		}
		var r protocol.Reply
		if oneWay {
			err = f.decodePush(message, &r)
		} else {
			err = f.decodeReply(message, &r)
		}
		if err != nil {
			return nil, fmt.Errorf("%.200q: %w", message, err)
		}
		all, frame = append(all, r), rest
	}
}

func (f Form) next(frame []byte) (message, rest []byte, err error) {
	if f == Protobuf {
		return protobuf.Next(frame)
	}
	message, rest = json.NextLine(frame)
	return message, rest, nil
}

func (f Form) decodeReply(message []byte, r *protocol.Reply) error {
	if f == Protobuf {
		return protobuf.DecodeReply(message, r)
	}
	return json.DecodeReply(message, r)
}

func (f Form) decodePush(message []byte, r *protocol.Reply) (err error) {
	if f == Protobuf {
		err = protobuf.DecodePush(message, &r.Push)
	} else {
		err = json.DecodePush(message, &r.Push)
	}
	if r.Push.Kind != protocol.PushUnknown || r.Push.Channel != "" {
		r.Kind = protocol.KindPush
	}
	return err
}

// unquoted returns the data of a publication in a subscription with Fossil deltas. JSON has it as a string.
func (f Form) unquoted(data []byte) ([]byte, error) {
	if f == Protobuf {
		return data, nil
	}
	var text string
	if err := stdjson.Unmarshal(data, &text); err != nil {
		return nil, fmt.Errorf("data of a subscription with deltas is no string: %w", err)
	}
	return []byte(text), nil
}

// malformed returns frames that contain no command, by what is wrong with them.
func (f Form) malformed() map[string][]byte {
	if f == Protobuf {
		return map[string][]byte{
			"a length beyond the frame": {200, 1, 8},
			"a length without an end":   {0x80},
			"a length of 70 bits":       bytes.Repeat([]byte{0xff}, 10),
			"a length of 63 bits":       append(bytes.Repeat([]byte{0xff}, 8), 0x7f, 8),
			"a field of 63 bits":        append(append([]byte{11, 0x22}, bytes.Repeat([]byte{0xff}, 8)...), 0x7f, 8),
			"a field of 70 bits":        append([]byte{12, 0x22}, append(bytes.Repeat([]byte{0xff}, 10), 1)...),
			"a field without its value": {1, 8},
			"a group":                   {2, 0x0b, 0x0c},
		}
	}
	return map[string][]byte{
		"half an object":  []byte(`{"id":2,"ping":{`),
		"an array":        []byte(`[]`),
		"a word":          []byte(`hello`),
		"two on one line": []byte(`{"id":2,"ping":{}}{"id":3,"ping":{}}`),
		"a zero byte":     {0},
		"a giant number":  []byte(`{"id":99999999999999999999,"token":99999999999999999999,"ping":{}}`),
	}
}

// malformedRequests returns what is no connect request of a one-way client.
func (f Form) malformedRequests() map[string][]byte {
	if f == Protobuf {
		return map[string][]byte{
			"a tag without an end": {0x80}, "a text beyond the end": {0x0a, 5, 'a'},
			"a text of 63 bits": append(append([]byte{0x0a}, bytes.Repeat([]byte{0xff}, 8)...), 0x7f, 'a'),
		}
	}
	return f.malformed()
}

// byteReader is a *bufio.Reader.
type byteReader interface {
	ReadByte() (byte, error)
	Read(p []byte) (int, error)
	ReadBytes(delim byte) ([]byte, error)
}

// ReadMessage reads one message from a stream of bytes: a line, or a message with its length. The result is a frame for Conn.Receive.
func (f Form) ReadMessage(r byteReader) (frame []byte, err error) {
	if f == JSON {
		return r.ReadBytes('\n')
	}
	size, err := binary.ReadUvarint(r)
	if err != nil {
		return nil, err
	}
	if size > maxMessage {
		return nil, errors.New("the length of a message is too large")
	}
	frame = binary.AppendUvarint(nil, size)
	start := len(frame)
	frame = append(frame, make([]byte, size)...)
	for at := start; at < len(frame); {
		n, err := r.Read(frame[at:])
		if at += n; err != nil && at < len(frame) {
			return nil, err
		}
	}
	return frame, nil
}

// maxMessage is more than any message of the suite has.
const maxMessage = 16 << 20
