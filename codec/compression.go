package codec

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync"

	"github.com/sluice-push/sluice/internal/gzipheader"
)

// Format is the format in which compressed messages are written. Decode reads all formats.
type Format uint8

// The formats. Gzip is deflate plus 18 bytes, which include a checksum of the message.
const (
	Deflate Format = iota // raw deflate, RFC 1951
	Gzip                  // one member of RFC 1952
)

// The values of the first byte of a payload.
const (
	formPlain   = 0
	formDeflate = 1
	formGzip    = 2
)

// CompressionOptions are the settings of a [Compression].
type CompressionOptions struct {
	// Format is the format of compressed messages; zero means [Deflate].
	Format Format
	// Level is from 1 (fast) to 9 (small). Zero means 1, because the other levels clear 640 KiB for each message. Negative disables compression
	// of written messages; compressed messages from the peer are still read.
	Level int
	// Threshold is the size in bytes from which messages are compressed; zero means 256, negative means all messages.
	Threshold int
	// Max is the size of the largest message in bytes, uncompressed, in both directions: zero means [DefaultMax], negative no limit.
	Max int
}

func (o *CompressionOptions) withDefaults() CompressionOptions {
	var d CompressionOptions
	if o != nil {
		d = *o
	}
	if d.Level == 0 {
		d.Level = flate.BestSpeed
	}
	if d.Threshold == 0 {
		d.Threshold = 256
	}
	return d
}

// Compression is shared by all connections that compress their messages alike: it holds the settings and the pools of compressors, decompressors
// and buffers. [Compression.New] makes the codec of one connection. All methods may be called concurrently.
type Compression struct {
	// Set by NewCompression.
	o    CompressionOptions
	most uint64

	// Pools, because a new compressor allocates more than a megabyte.
	writers sync.Pool // *flate.Writer
	readers sync.Pool // *reader
	buffers sync.Pool // *buffer
}

// reader is a decompressor and its input. The input implements io.ByteReader, so the decompressor reads no byte beyond the compressed data.
type reader struct {
	src bytes.Reader
	r   io.Reader // also a flate.Resetter
}

// NewCompression returns a Compression with settings o, which may be nil. It panics if the level is above 9 or the format is unknown.
func NewCompression(o *CompressionOptions) *Compression {
	c := &Compression{o: o.withDefaults()}
	c.most = limit(c.o.Max)
	if c.o.Level > flate.BestCompression {
		panic(fmt.Sprintf("codec: a compression level of %d: use 1 to 9", c.o.Level))
	}
	if c.o.Format > Gzip {
		panic(fmt.Sprintf("codec: compression format %d: use Deflate or Gzip", c.o.Format))
	}
	return c
}

// New returns the codec of one connection. The codec inner frames the compressed messages: a [Length], or a custom codec. Compressed data
// contains arbitrary bytes in arbitrary number, so [Line], [Delimiter], [Fixed] and [Raw] cannot be inner codecs. The limit of inner applies to
// the bytes on the wire: for messages that do not shrink it has to be Max+1.
func (c *Compression) New(inner Framer) *Compressed {
	if inner == nil {
		panic("codec: compression without an inner codec: give it one that cuts the frames, such as Length")
	}
	return &Compressed{shared: c, inner: inner}
}

// pack appends the payload of the frame of msg to b, compressed if that is smaller.
func (c *Compression) pack(b *buffer, msg []byte) {
	if c.o.Level < 0 || len(msg) < c.o.Threshold {
		b.b = append(append(b.b, formPlain), msg...)
		return
	}
	if c.o.Format == Gzip {
		b.b = appendGzipHeader(append(b.b, formGzip))
	} else {
		b.b = append(b.b, formDeflate)
	}
	w, _ := c.writers.Get().(*flate.Writer)
	if w == nil {
		w, _ = flate.NewWriter(b, c.o.Level) // fails only for a level that NewCompression refuses
	} else {
		w.Reset(b)
	}
	// A write to a buffer does not fail.
	_, _ = w.Write(msg)
	_ = w.Close()
	c.writers.Put(w)
	if c.o.Format == Gzip {
		b.b = binary.LittleEndian.AppendUint32(b.b, crc32.ChecksumIEEE(msg))
		b.b = binary.LittleEndian.AppendUint32(b.b, uint32(len(msg)))
	}
	if len(b.b) > len(msg) {
		b.b = append(append(b.b[:0], formPlain), msg...)
	}
}

// unpackGzip appends to b the message in the gzip member in.
func (c *Compression) unpackGzip(b *buffer, in []byte) error {
	head := gzipheader.Len(in)
	if head == 0 {
		return fmt.Errorf("%w: not a gzip header", ErrCorrupt)
	}
	rest, err := c.inflate(b, in[head:])
	if err != nil {
		return err
	}
	if rest != gzipTrailer {
		return fmt.Errorf("%w: %d bytes follow the compressed data, not the %d of one gzip member", ErrCorrupt, rest, gzipTrailer)
	}
	trailer := in[len(in)-rest:]
	sum, size := binary.LittleEndian.Uint32(trailer), binary.LittleEndian.Uint32(trailer[4:])
	if sum != crc32.ChecksumIEEE(b.b) || size != uint32(len(b.b)) {
		return fmt.Errorf("%w: checksum or size is wrong", ErrCorrupt)
	}
	return nil
}

// unpackDeflate appends to b what in holds.
func (c *Compression) unpackDeflate(b *buffer, in []byte) error {
	rest, err := c.inflate(b, in)
	if err == nil && rest != 0 {
		return fmt.Errorf("%w: %d bytes follow the compressed data", ErrCorrupt, rest)
	}
	return err
}

// inflate appends the decompressed bytes of in to b, and returns the number of bytes of in that follow the compressed data. It relies on no
// declared size: b grows with the output, up to the limit.
func (c *Compression) inflate(b *buffer, in []byte) (rest int, err error) {
	r := c.reader(in)
	defer c.putReader(r)
	most := min(c.most, maxInt-1)
	for {
		// One byte more than is allowed, to tell a message at the limit from one beyond it.
		n, err := r.r.Read(b.space(most + 1))
		b.b = b.b[:len(b.b)+n]
		switch {
		case uint64(len(b.b)) > most:
			return 0, fmt.Errorf("%w: decompressed it has more than %d bytes", ErrTooLarge, most)
		case errors.Is(err, io.EOF):
			return r.src.Len(), nil
		case err != nil:
			return 0, fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
	}
}

// reader borrows a decompressor and sets its input to in.
func (c *Compression) reader(in []byte) *reader {
	r, _ := c.readers.Get().(*reader)
	if r == nil {
		r = new(reader)
		r.src.Reset(in)
		r.r = flate.NewReader(&r.src)
		return r
	}
	r.src.Reset(in)
	_ = r.r.(flate.Resetter).Reset(&r.src, nil) // cannot fail
	return r
}

func (c *Compression) putReader(r *reader) {
	r.src.Reset(nil)
	c.readers.Put(r)
}

// buffer is a pooled byte slice that grows.
type buffer struct {
	b    []byte
	free bool
}

// keptBuffer is the largest buffer that a pool keeps.
const keptBuffer = 128 << 10

// Write appends p. It never fails.
func (b *buffer) Write(p []byte) (int, error) {
	b.b = append(b.b, p...)
	return len(p), nil
}

// space returns the free part of b, grown if there is none, but never beyond most bytes in all.
func (b *buffer) space(most uint64) []byte {
	if len(b.b) == cap(b.b) {
		grown := make([]byte, len(b.b), min(max(2*uint64(cap(b.b)), 4<<10), most))
		copy(grown, b.b)
		b.b = grown
	}
	return b.b[len(b.b):min(uint64(cap(b.b)), most)]
}

func (c *Compression) buffer() *buffer {
	b, _ := c.buffers.Get().(*buffer)
	if b == nil {
		return new(buffer)
	}
	b.b, b.free = b.b[:0], false
	return b
}

// putBuffer returns a buffer to the pool, without its memory if that is larger than keptBuffer.
func (c *Compression) putBuffer(b *buffer) {
	if b.free {
		panic("codec: buffer released twice")
	}
	b.free = true
	if cap(b.b) > keptBuffer {
		b.b = nil
	}
	c.buffers.Put(b)
}
