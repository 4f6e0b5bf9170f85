package compression

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"strconv"
	"strings"
	"sync"
)

// ErrTooLarge means that something inflates to more than the limit.
var ErrTooLarge = errors.New("compression: inflates to more than is allowed")

// Decompressor reads gzip streams one after the other, and at most so many bytes of each. It has the methods of connect.Decompressor. One goroutine
// at a time may use it.
type Decompressor struct {
	reader gzip.Reader
	most   int64
	left   int64
}

// NewDecompressor returns a Decompressor without a stream. Most is how many bytes of a stream are inflated; zero and less are none.
func NewDecompressor(most int) *Decompressor { return &Decompressor{most: int64(max(most, 0))} }

// Reset begins to read another stream. It reads the header of the stream, and fails if there is none.
func (d *Decompressor) Reset(r io.Reader) error {
	d.left = d.most
	return d.reader.Reset(r)
}

// Read implements io.Reader. It fails with [ErrTooLarge] if there is more than the limit.
func (d *Decompressor) Read(p []byte) (n int, err error) {
	if len(p) == 0 {
		return 0, nil
	}
	n, err = d.reader.Read(p[:min(int64(len(p)), d.left+1)])
	if int64(n) > d.left {
		n, err = int(d.left), ErrTooLarge
	}
	d.left -= int64(n)
	return n, err
}

// Close ends the stream, but does not close what it was read from.
func (d *Decompressor) Close() error { return d.reader.Close() }

var decompressors = sync.Pool{New: func() any { return new(Decompressor) }}

// ReadAll inflates a gzip stream of at most so many inflated bytes; if there are more it fails with [ErrTooLarge].
func ReadAll(r io.Reader, most int) ([]byte, error) {
	d := decompressors.Get().(*Decompressor) //nolint:forcetypeassert // the pool has nothing else
	defer decompressors.Put(d)
	d.most = int64(most)
	if err := d.Reset(r); err != nil {
		return nil, err
	}
	defer func() { _ = d.Reset(bytes.NewReader(nil)) }() // forgets r, and fails
	return io.ReadAll(d)
}

// Compressor compresses what is written between Reset and Close, as one gzip stream. It has the methods of connect.Compressor, for the few messages
// that connect-go makes itself. One goroutine at a time may use it.
type Compressor struct {
	to      io.Writer
	message []byte
}

// Reset begins another stream.
func (c *Compressor) Reset(to io.Writer) { c.to, c.message = to, c.message[:0] }

// Write implements io.Writer.
func (c *Compressor) Write(p []byte) (int, error) {
	c.message = append(c.message, p...)
	return len(p), nil
}

// Close writes the stream.
func (c *Compressor) Close() error {
	_, err := c.to.Write(AppendGzip(nil, c.message))
	c.to = nil
	if cap(c.message) > kept {
		c.message = nil
	}
	return err
}

// Accepts reports whether the values of an Accept-Encoding header ask for gzip (RFC 9110, section 12.5.3). A client that leaves the choice to the
// server, by * or without such a header, does not ask.
func Accepts(values []string) bool {
	for _, value := range values {
		for item := range strings.SplitSeq(value, ",") {
			name, parameters, _ := strings.Cut(item, ";")
			if !strings.EqualFold(strings.TrimSpace(name), "gzip") {
				continue
			}
			weight, isWeight := strings.CutPrefix(strings.ToLower(strings.ReplaceAll(parameters, " ", "")), "q=")
			q, err := strconv.ParseFloat(weight, 64)
			return !isWeight || err == nil && q > 0
		}
	}
	return false
}
