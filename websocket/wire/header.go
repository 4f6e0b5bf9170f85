package wire

import (
	"encoding/binary"
	"math"
)

// header is a frame header that passed the checks.
type header struct {
	op       Opcode
	fin      bool
	deflated bool   // the message is compressed (RFC 7692 §6)
	length   int    // of the payload
	size     int    // of the header itself
	key      uint32 // for unmask; 0 in frames without a mask
}

// parseHeader reads the header at the start of in into h, whose fields must be zero. It checks each rule as soon as the bytes for it have
// arrived, so that the result is the same however the bytes were split. It changes nothing but h, because it runs again until the frame is
// complete. The header is a parameter, not a result, because returning the struct costs a large part of Decode's time.
func (c *Codec) parseHeader(in []byte, h *header) (complete bool, bad *CloseError) {
	if len(in) == 0 {
		return false, nil
	}
	w := c.currentWork()
	h.op, h.fin = Opcode(in[0]&opcodeBits), in[0]&finBit != 0
	h.deflated = in[0]&rsv1Bit != 0
	if bad = c.checkFirst(w, in[0]&rsvBits, h.op, h.fin); bad != nil || len(in) < 2 {
		return false, bad
	}
	if h.op == OpContinuation {
		h.deflated = w.deflated
	}
	if masked := in[1]&maskBit != 0; masked == c.client { // §5.1
		if masked {
			return false, violation("frame is masked")
		}
		return false, violation("frame is not masked")
	}
	length := uint64(in[1] & lengthBits)
	if h.op.control() && length > maxControl {
		return false, violation("control frame of more than 125 bytes") // §5.5
	}
	h.size = 2
	switch length {
	case length16:
		h.size += 2
		if len(in) < h.size {
			return false, nil
		}
		if length = uint64(binary.BigEndian.Uint16(in[2:])); length < length16 {
			return false, violation("length is not in its shortest form") // §5.2
		}
	case length64:
		h.size += 8
		if len(in) < h.size {
			return false, nil
		}
		length = binary.BigEndian.Uint64(in[2:])
		if length > math.MaxInt64 {
			return false, violation("length with the top bit set") // §5.2
		}
		if length <= math.MaxUint16 {
			return false, violation("length is not in its shortest form") // §5.2
		}
	}
	// A control frame's 125 bytes need no limit. The difference is not negative, because the earlier fragments are within the limit.
	if !h.op.control() && length > uint64(c.e.wireLimit(h.deflated)-w.total) {
		return false, errTooBig()
	}
	h.length = int(length)
	if c.client {
		return true, nil
	}
	if len(in) < h.size+maskLen {
		return false, nil
	}
	h.key = binary.LittleEndian.Uint32(in[h.size:])
	h.size += maskLen
	return true, nil
}

// decodeWhole is a fast path of Decode between two messages. It handles the most common frame: a whole message of a client, masked, not
// compressed, and not larger than 64 KiB. For any other input, valid or not, n is 0 and Decode's general path decides.
func (c *Codec) decodeWhole(in []byte) (msg []byte, n int, err error) {
	if len(in) < 2+2+maskLen || c.client {
		return nil, 0, nil
	}
	op, size, length := Opcode(in[0]&^finBit), 2, int(in[1])-maskBit // negative if the frame is not masked
	switch {
	case in[0]&finBit == 0 || op != OpText && op != OpBinary || length == length64:
		return nil, 0, nil
	case length == length16:
		if size, length = 4, int(binary.BigEndian.Uint16(in[2:])); length < length16 {
			return nil, 0, nil
		}
	}
	from := size + maskLen
	end := from + length
	if length < 0 || length > c.e.whole || end > len(in) {
		return nil, 0, nil
	}
	msg = in[from:end:end]
	unmask(msg, binary.LittleEndian.Uint32(in[size:]))
	if op == OpText && !c.e.o.SkipUTF8 && !validText(msg) {
		return nil, 0, c.fail(errNotUTF8())
	}
	c.last = op
	return msg, end, nil
}

// checkFirst checks the first byte of a frame.
func (c *Codec) checkFirst(w *work, rsv byte, op Opcode, fin bool) *CloseError {
	if rsv == rsv1Bit && c.deflates() && (op == OpText || op == OpBinary) {
		rsv = 0 // RFC 7692 §6: only the first frame of a message has the bit
	}
	switch {
	case rsv != 0:
		return violation("reserved bits are set") // §5.2
	case !op.known():
		return violation("opcode is reserved") // §5.2
	case op.control():
		if !fin {
			return violation("control frame is fragmented") // §5.5
		}
		return nil
	case op == OpContinuation && w.kind == OpContinuation:
		return violation("continuation without a message") // §5.4
	case op != OpContinuation && w.kind != OpContinuation:
		return violation("new message inside a fragmented one") // §5.4
	case w.fragments >= c.e.o.fragments(w.total):
		return &CloseError{Code: ClosePolicyViolation, Reason: "message has too many fragments"}
	}
	return nil
}

// checksText reports whether the payload of the frame is checked as UTF-8 before its message is complete.
func (c *Codec) checksText(h *header) bool {
	kind := h.op
	if kind == OpContinuation {
		kind = c.currentWork().kind
	}
	return kind == OpText && !h.deflated && !c.e.o.SkipUTF8
}

// checkPartial checks the part of a text frame's payload that has arrived, each byte once. It leaves the payload masked, because Decode does not
// report the bytes as used yet.
func (c *Codec) checkPartial(payload []byte, key uint32) bool {
	w := c.ensureWork()
	var piece [512]byte
	for w.checked < len(payload) {
		n := copy(piece[:], payload[w.checked:])
		unmask(piece[:n], keyAt(key, w.checked))
		if !w.text.add(piece[:n]) {
			return false
		}
		w.checked += n
	}
	return true
}

func errTooBig() *CloseError { return &CloseError{Code: CloseTooBig, Reason: "message is too big"} }
