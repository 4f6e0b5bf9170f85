package codec

import "fmt"

// Fixed is a codec for messages that all have the same size and no other framing. All methods may be called concurrently.
type Fixed struct {
	// Size is the size of each message in bytes. If it is less than 1, every call panics.
	Size int
}

// Decode returns the first message in in, as the package comment describes. It never fails.
func (c Fixed) Decode(in []byte) (msg []byte, n int, err error) {
	c.check()
	if len(in) < c.Size {
		return nil, len(in) - c.Size, nil
	}
	return in[:c.Size:c.Size], c.Size, nil
}

// AppendEncode appends msg to dst. It fails with [ErrSize].
func (c Fixed) AppendEncode(dst, msg []byte) ([]byte, error) {
	dst, err := c.AppendHeader(dst, msg)
	if err != nil {
		return dst, err
	}
	return append(dst, msg...), nil
}

// AppendHeader appends nothing, because a frame is just the message. It fails with [ErrSize].
func (c Fixed) AppendHeader(dst, msg []byte) ([]byte, error) {
	c.check()
	if len(msg) != c.Size {
		return dst, fmt.Errorf("%w: it has %d bytes, not %d", ErrSize, len(msg), c.Size)
	}
	return dst, nil
}

func (c *Fixed) check() {
	if c.Size < 1 {
		panic(fmt.Sprintf("codec: Fixed with Size %d: set it to the size of a message", c.Size))
	}
}
