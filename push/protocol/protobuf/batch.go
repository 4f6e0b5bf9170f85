package protobuf

import (
	"bytes"
	"encoding/binary"

	"github.com/sluice-push/sluice/push/protocol"
)

// DecodeSend decodes a request of Client/Send. Commands are not decoded; they are copied into one frame. The error is a *[SyntaxError], wrapped.
func DecodeSend(message []byte) (protocol.Batch, error) {
	var b protocol.Batch
	d := newDecoder(message)
	for d.next() {
		switch d.tag {
		case sendCommandsRequestSession:
			b.Session = d.str("session")
		case sendCommandsRequestNode:
			b.Node = d.str("node")
		case sendCommandsRequestCommands:
			command := d.bytes()
			if b.Commands == nil { // room for one: a message may have much else, and the commands may be kept for long
				b.Commands = make([]byte, 0, maxVarintLen+len(command))
			}
			b.Commands = append(binary.AppendUvarint(b.Commands, uint64(len(command))), command...)
		default:
			d.skip()
		}
	}
	return b, d.finish("batch")
}

// DecodeEmulation decodes the body of a POST to /emulation. Commands are copied: the message may be much larger. The error is a *[SyntaxError],
// wrapped.
func DecodeEmulation(message []byte) (protocol.Batch, error) {
	var b protocol.Batch
	d := newDecoder(message)
	for d.next() {
		switch d.tag {
		case emulationRequestNode:
			b.Node = d.str("node")
		case emulationRequestSession:
			b.Session = d.str("session")
		case emulationRequestData:
			b.Commands = bytes.Clone(d.bytes())
		default:
			d.skip()
		}
	}
	return b, d.finish("batch")
}

// AppendEmulation appends the body of a POST to /emulation, without a length before it.
func AppendEmulation(dst []byte, b *protocol.Batch) []byte {
	dst = appendString(dst, emulationRequestNode, b.Node)
	dst = appendString(dst, emulationRequestSession, b.Session)
	return appendBytes(dst, emulationRequestData, b.Commands)
}
