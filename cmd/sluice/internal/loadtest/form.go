package loadtest

import (
	"bytes"

	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest/delivery"
	"github.com/sluice-push/sluice/push/protocol"
	"github.com/sluice-push/sluice/push/protocol/json"
	"github.com/sluice-push/sluice/push/protocol/protobuf"
	"github.com/sluice-push/sluice/websocket"
)

// form is the encoding of frames under one protocol. It does not change, so all methods may be called concurrently.
type form interface {
	// handleLocked records the publications and replies of a frame. It reports whether the frame holds a ping that is to be answered.
	handleLocked(g *group, c *client, frame []byte) (ping bool)
	// appendCommand appends a command to a frame.
	appendCommand(frame []byte, cmd *protocol.Command) []byte
}

// newForm returns the form of a protocol, and the opcode of its frames on WebSocket.
func newForm(s *Spec) (form, websocket.Opcode) {
	switch s.Protocol {
	case Plain:
		return plainForm{}, websocket.OpText
	case Protobuf:
		return &protobufForm{scan: delivery.NewProtobufScanner(s.Prefix)}, websocket.OpBinary
	}
	return &jsonForm{scan: delivery.NewJSONScanner(s.Prefix, s.Bytes)}, websocket.OpText
}

// plainForm is the form of a server without a protocol: a frame is the data of a publication.
type plainForm struct{}

func (plainForm) handleLocked(g *group, c *client, frame []byte) (ping bool) {
	g.deliverLocked(c, anyChannel, frame, 0)
	return false
}

func (plainForm) appendCommand(frame []byte, _ *protocol.Command) []byte { return frame }

// jsonForm is the JSON form of the client protocol: a frame is lines.
type jsonForm struct{ scan delivery.JSONScanner }

func (f *jsonForm) handleLocked(g *group, c *client, frame []byte) (ping bool) {
	for line, rest := nextLine(frame); len(line) > 0 || len(rest) > 0; line, rest = nextLine(rest) {
		found, ok := f.scan.Push(line)
		switch {
		case ok:
			g.deliverLocked(c, found.Channel, found.Data, found.Offset)
		case string(line) == "{}":
			ping = c.answersPings
		case len(line) > 0:
			var r protocol.Reply
			if err := json.DecodeReply(line, &r); err != nil {
				c.shard.counts.Corrupt++ // it may have been a publication
				continue
			}
			g.handleReplyLocked(c, &r)
		}
	}
	return ping
}

func (*jsonForm) appendCommand(frame []byte, cmd *protocol.Command) []byte {
	if len(frame) > 0 {
		frame = append(frame, '\n')
	}
	return json.AppendCommand(frame, cmd)
}

// nextLine splits a frame after its first line. The newline is in neither part. Nearly all frames are one line without a newline.
func nextLine(frame []byte) (line, rest []byte) {
	i := bytes.IndexByte(frame, '\n')
	if i < 0 {
		return frame, nil
	}
	return frame[:i], frame[i+1:]
}

// protobufForm is the Protobuf form of the client protocol: a frame is messages, each with its length before it.
type protobufForm struct{ scan delivery.ProtobufScanner }

func (f *protobufForm) handleLocked(g *group, c *client, frame []byte) (ping bool) {
	for {
		message, rest, err := protobuf.Next(frame)
		if err != nil {
			c.shard.counts.Corrupt++ // it may have been a publication
			return ping
		}
		if message == nil {
			return ping
		}
		frame = rest
		found, ok := f.scan.Push(message)
		switch {
		case ok:
			g.deliverLocked(c, found.Channel, found.Data, found.Offset)
		case len(message) == 0:
			ping = c.answersPings
		default:
			var r protocol.Reply
			if err := protobuf.DecodeReply(message, &r); err != nil {
				c.shard.counts.Corrupt++ // as above
				continue
			}
			g.handleReplyLocked(c, &r)
		}
	}
}

func (*protobufForm) appendCommand(frame []byte, cmd *protocol.Command) []byte {
	return protobuf.AppendCommand(frame, cmd)
}
