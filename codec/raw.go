package codec

// Raw is a codec without message boundaries: the bytes that have arrived are a message, so the boundaries are those of the reads and mean
// nothing. It is for protocols with their own parser, for proxies and for echo servers. All methods may be called concurrently.
type Raw struct {
	// Max is the largest number of bytes that Decode returns at a time: zero means [DefaultMax], negative no limit.
	Max int
}

// Decode returns the bytes in in, at most Max of them. It never fails, and never returns an empty message.
func (c Raw) Decode(in []byte) (msg []byte, n int, err error) {
	if len(in) == 0 {
		return nil, 0, nil
	}
	n = int(min(uint64(len(in)), limit(c.Max)))
	return in[:n:n], n, nil
}

// AppendEncode appends msg to dst, whatever its size. It never fails.
func (c Raw) AppendEncode(dst, msg []byte) ([]byte, error) { return append(dst, msg...), nil }

// AppendHeader appends nothing, because a frame is just the message. It never fails.
func (c Raw) AppendHeader(dst, _ []byte) ([]byte, error) { return dst, nil }
