package rpc

import (
	"fmt"
	"strconv"
	"strings"
)

// Flow control of streams. The caller gives the server credit: a number of messages, and a number of bytes of their bodies. While any of both is left,
// the server may send one more message of any size. So at most the credit and one message wait at the caller.

// credit is how many messages, and bytes of their bodies, may be sent. bytes is negative after a message that was larger than what was left.
type credit struct{ messages, bytes int }

// maxCredit bounds both numbers of a credit.
const maxCredit = noBound

// take uses credit for a message of so many bytes. It reports false, and changes nothing, if there is no credit.
func (c *credit) take(size int) bool {
	if c.messages <= 0 || c.bytes <= 0 {
		return false
	}
	c.messages--
	c.bytes -= size
	return true
}

// add adds more credit. It reports false, and changes nothing, if more is negative or the sum is too large.
func (c *credit) add(more credit) bool {
	if more.messages < 0 || more.bytes < 0 || more.messages > maxCredit-c.messages || more.bytes > maxCredit-c.bytes {
		return false
	}
	c.messages += more.messages
	c.bytes += more.bytes
	return true
}

// String returns the credit as it travels with the call of a stream: messages and bytes, decimal, with a space between them.
func (c credit) String() string { return fmt.Sprintf("%d %d", c.messages, c.bytes) }

// parseCredit reads what String returns. It reports false for anything else, and for numbers out of bounds.
func parseCredit(text string) (c credit, ok bool) {
	messages, bytes, _ := strings.Cut(text, " ")
	m, err1 := strconv.ParseUint(messages, 10, 32)
	b, err2 := strconv.ParseUint(bytes, 10, 32)
	if err1 != nil || err2 != nil || m > maxCredit || b > maxCredit {
		return credit{}, false
	}
	return credit{int(m), int(b)}, true
}

// parseGrant reads the value of a control frame with the key keyCredit: the sequence id of a stream, a space, and a credit.
func parseGrant(text string) (id int32, c credit, ok bool) {
	first, rest, _ := strings.Cut(text, " ")
	n, err := strconv.ParseInt(first, 10, 32)
	if err != nil {
		return 0, credit{}, false
	}
	c, ok = parseCredit(rest)
	return int32(n), c, ok
}

// window is the flow control of a stream at its caller.
type window struct {
	size  credit // what the server may send before anything is received
	left  credit // what the server may still send
	freed credit // what was received and not given back yet
}

func newWindow(messages, bytes int) window {
	size := credit{messages, bytes}
	return window{size: size, left: size}
}

// arrive counts a message that has arrived. It reports false if the server had no credit for it.
func (w *window) arrive(size int) bool { return w.left.take(size) }

// free counts a message that was received. It returns the credit to give back now. That is zero until half of the window was received, so that most
// messages cost no control frame.
func (w *window) free(size int) credit {
	w.freed.messages++
	w.freed.bytes += size
	if 2*w.freed.messages < w.size.messages && 2*w.freed.bytes < w.size.bytes {
		return credit{}
	}
	grant := w.freed
	w.freed = credit{}
	w.left.add(grant)
	return grant
}
