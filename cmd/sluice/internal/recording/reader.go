package recording

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync/atomic"
)

const bufferSize = 64 << 10

// Reader returns the frames of one recording. Next and Close must not be called concurrently. Any goroutine may call Progress and Name at any
// time.
type Reader struct {
	name     string
	max      int
	total    int64
	closer   io.Closer    // nil if the caller of NewReader owns the input
	consumed atomic.Int64 // bytes of the file that have been processed

	// The chain of input: file counts the bytes of the file, raw buffers them. For plain text lines is raw itself. For gzip, unpacked counts the
	// decompressed bytes and lines buffers them.
	file     counter
	raw      *bufio.Reader // nil until the first Next
	unpacked counter
	lines    *bufio.Reader

	long    []byte // a line that does not fit the buffer of lines
	line    int
	format  format
	scanner scanner
	symbols interner
	err     error // returned by every further Next
}

// Open opens the recording in a file. The caller closes the reader. The error is an [*Error].
func Open(path string, opts *Options) (*Reader, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, &Error{File: path, Err: pathCause(err)}
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = errors.New("is a folder")
	}
	if err != nil {
		_ = f.Close() // nothing was read, and the error above is the one to report
		return nil, &Error{File: path, Err: pathCause(err)}
	}
	r := NewReader(f, path, opts)
	r.closer = f
	if info.Mode().IsRegular() {
		r.total = info.Size()
	}
	return r, nil
}

// pathCause removes the file name from an error, because Error names the file already.
func pathCause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return fmt.Errorf("%s: %w", p.Op, p.Err)
	}
	return err
}

// NewReader returns a reader of the recording in r. Errors name the recording by name. NewReader reads nothing; the first Next does. Close does
// not close r.
func NewReader(r io.Reader, name string, opts *Options) *Reader {
	return &Reader{name: name, max: opts.withDefaults().MaxLine, file: counter{r: r}}
}

// Name returns the name given to [Open] or [NewReader].
func (r *Reader) Name() string { return r.name }

// Progress returns how many bytes of the file have been processed up to the last frame, and the size of the file. For gzip, both count
// compressed bytes; then read is an estimate until the end, where it is exact. If the size is unknown, total is 0.
func (r *Reader) Progress() (read, total int64) { return r.consumed.Load(), r.total }

// updateProgress updates consumed. Bytes in the buffers do not count as processed. For decompressed bytes in a buffer, it assumes the average
// compression ratio so far.
func (r *Reader) updateProgress() {
	if r.raw == nil {
		return
	}
	n := r.file.n - int64(r.raw.Buffered())
	if out := r.unpacked.n; out > 0 {
		n = int64(float64(n) * (1 - float64(r.lines.Buffered())/float64(out)))
	}
	if n > r.consumed.Load() { // a later estimate may be lower, but progress must not go back
		r.consumed.Store(n)
	}
}

// Close closes the file that [Open] opened. It may be called more than once. Afterwards Next returns [fs.ErrClosed], in an [*Error].
func (r *Reader) Close() error {
	if r.err == nil {
		r.err = &Error{File: r.name, Line: r.line, Err: fs.ErrClosed}
	}
	c := r.closer
	if c == nil {
		return nil
	}
	r.closer = nil
	if err := c.Close(); err != nil {
		return &Error{File: r.name, Err: pathCause(err)}
	}
	return nil
}

// Next returns the next frame, io.EOF itself after the last one, or an [*Error]. An error is final: every further call returns it. Next has
// returned all frames before the place of the error. The frame's Data is valid until the next call.
func (r *Reader) Next() (Frame, error) {
	for r.err == nil {
		line, err := r.readLine()
		r.updateProgress()
		if err != nil {
			r.fail(r.line+1, err)
			break
		}
		r.line++
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		f, found, err := r.parse(line)
		if err != nil {
			r.fail(r.line, err)
			break
		}
		if found {
			return f, nil
		}
	}
	return Frame{}, r.err
}

func (r *Reader) fail(line int, err error) {
	if errors.Is(err, io.EOF) {
		r.err = io.EOF
		return
	}
	r.err = &Error{File: r.name, Line: line, Err: err}
}

// parse returns the frame in a line. If the line holds none, found is false.
func (r *Reader) parse(line []byte) (f Frame, found bool, err error) {
	if r.format == formatUnknown {
		if r.format = detect(line); r.format == formatUnknown {
			return f, false, errors.New(`neither "<unix nanoseconds> <JSON>" nor a captured conversation`)
		}
	}
	p, err := r.format.cut(line)
	if err != nil || p.kind == lineOther {
		return f, false, err
	}
	if err := r.scanner.scan(p.body); err != nil {
		return f, false, fmt.Errorf("frame is not JSON: %w", err)
	}
	symbol := r.symbols.symbol(r.scanner.symbol())
	if symbol == "" && p.kind == lineAnswer {
		symbol = r.symbols.symbol(addressSymbol(string(p.address)))
	}
	return Frame{Time: p.time, Symbol: symbol, Data: p.body, Line: r.line}, true, nil
}

// open checks for the magic number of gzip and sets up the buffers.
func (r *Reader) open() error {
	r.raw = bufio.NewReaderSize(&r.file, bufferSize)
	magic, err := r.raw.Peek(2)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read: %w", err)
	}
	if !bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		r.lines = r.raw
		return nil
	}
	z, err := gzip.NewReader(r.raw)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return decompressError(err)
	}
	r.unpacked.r = z
	r.lines = bufio.NewReaderSize(&r.unpacked, bufferSize)
	return nil
}

func decompressError(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("the compressed data ends early, the file is incomplete: %w", err)
	}
	return fmt.Errorf("decompress: %w", err)
}

// readLine returns the next line without its line end, or io.EOF. The line is valid until the next call. A partial line before a read error is
// dropped, because it may be cut anywhere.
func (r *Reader) readLine() ([]byte, error) {
	if r.raw == nil {
		if err := r.open(); err != nil {
			return nil, err
		}
	}
	r.long = r.long[:0]
	for {
		chunk, err := r.lines.ReadSlice('\n')
		length := len(r.long) + len(chunk)
		if err == nil {
			length-- // the newline does not count
		}
		if length > r.max {
			return nil, fmt.Errorf("%w: more than %d bytes", ErrLineTooLong, r.max)
		}
		if err == nil && len(r.long) == 0 {
			return trimEnd(chunk), nil
		}
		r.long = append(r.long, chunk...)
		switch {
		case err == nil:
			return trimEnd(r.long), nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(r.long) > 0:
			return trimEnd(r.long), nil
		case errors.Is(err, io.EOF):
			return nil, io.EOF
		case r.lines != r.raw:
			return nil, decompressError(err)
		default:
			return nil, fmt.Errorf("read: %w", err)
		}
	}
}

func trimEnd(line []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte{'\n'}), []byte{'\r'})
}

// counter counts the bytes that are read through it.
type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}
