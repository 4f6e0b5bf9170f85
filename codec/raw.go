package codec

// Raw does not cut: whatever has arrived is a message, so the boundaries between messages are those of the reads and mean nothing.
// It is for protocols that have their own parser behind it, for proxies and for echo servers. All methods may be called
// concurrently.
type Raw struct {
	// Max is how many bytes are handed out at a time: zero means [DefaultMax], negative all that are there.
	Max int
}

// Decode returns what is there, at most Max bytes of it. It never fails, and never returns an empty message.
func (c Raw) Decode(in []byte) (msg []byte, n int, err error) {
	if len(in) == 0 {
		return nil, 0, nil
	}
	n = int(min(uint64(len(in)), limit(c.Max)))
	return in[:n:n], n, nil
}

// AppendEncode appends msg to dst, whatever its size. It never fails.
func (c Raw) AppendEncode(dst, msg []byte) ([]byte, error) { return append(dst, msg...), nil }

// AppendHeader appends nothing: a frame is the message as it is. It never fails.
func (c Raw) AppendHeader(dst, _ []byte) ([]byte, error) { return dst, nil }
