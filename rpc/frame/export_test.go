package frame

// Kept returns how many bytes a codec keeps for decompressed messages.
func Kept(c *Codec) int { return cap(c.inflated[0]) + cap(c.inflated[1]) }

// Prefix is appendPrefix.
func Prefix(f *Frame, size int) ([]byte, error) { return f.appendPrefix(nil, size) }
