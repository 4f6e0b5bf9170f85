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

// Reader hands out the frames of one recording. One goroutine at a time may call Next and Close; Progress and Name may be called at
// any time by any.
type Reader struct {
	name   string
	max    int
	total  int64
	closer io.Closer    // nil when the reader does not own its input
	passed atomic.Int64 // bytes of the file that are done with

	// The input: file counts what raw buffers; lines is raw itself, or buffers what unpacked counts as it comes out of gzip.
	file     counter
	raw      *bufio.Reader // nil until the first Next
	unpacked counter
	lines    *bufio.Reader

	long    []byte // a line that did not fit the buffer of lines
	line    int
	form    form
	find    finder
	symbols interner
	err     error // what every further Next returns
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
		_ = f.Close() // nothing was read; the cause is the error above
		return nil, &Error{File: path, Err: pathCause(err)}
	}
	r := NewReader(f, path, opts)
	r.closer = f
	if info.Mode().IsRegular() {
		r.total = info.Size()
	}
	return r, nil
}

// pathCause strips the file name from an error, since Error names the file already.
func pathCause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return fmt.Errorf("%s: %w", p.Op, p.Err)
	}
	return err
}

// NewReader returns a reader of the recording in r, which is called name in errors. Nothing is read before the first Next. Close
// does not close r.
func NewReader(r io.Reader, name string, opts *Options) *Reader {
	return &Reader{name: name, max: opts.withDefaults().MaxLine, file: counter{r: r}}
}

// Name returns the name given to [Open] or [NewReader].
func (r *Reader) Name() string { return r.name }

// Progress says how many bytes of the file, compressed as they are, are behind the last frame, and how many the file has; total is 0
// when that is not known. Inside compressed data the place is an estimate, exact at the end.
func (r *Reader) Progress() (read, total int64) { return r.passed.Load(), r.total }

// pass brings passed up to date. What waits in the buffers is not passed; it counts as if it were compressed like all before it.
func (r *Reader) pass() {
	if r.raw == nil {
		return
	}
	n := r.file.n - int64(r.raw.Buffered())
	if out := r.unpacked.n; out > 0 {
		n = int64(float64(n) * (1 - float64(r.lines.Buffered())/float64(out)))
	}
	if n > r.passed.Load() { // an estimate may turn out to have been too high
		r.passed.Store(n)
	}
}

// Close closes the file that [Open] opened. Closing again does nothing. Afterwards Next returns [fs.ErrClosed], in an [*Error].
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

// Next returns the next frame, io.EOF itself after the last one, or an [*Error]. An error is final: every further call repeats it.
// All frames before the place of the error have been handed out. The frame's Data is borrowed until the next call.
func (r *Reader) Next() (Frame, error) {
	for r.err == nil {
		line, err := r.readLine()
		r.pass()
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

// parse returns the frame in a line; found is false when the line holds none.
func (r *Reader) parse(line []byte) (f Frame, found bool, err error) {
	if r.form == formUnknown {
		if r.form = detect(line); r.form == formUnknown {
			return f, false, errors.New(`neither "<unix nanoseconds> <JSON>" nor a captured conversation`)
		}
	}
	p, err := r.form.cut(line)
	if err != nil || p.kind == lineOther {
		return f, false, err
	}
	if err := r.find.walk(p.body); err != nil {
		return f, false, fmt.Errorf("frame is not JSON: %w", err)
	}
	symbol := r.symbols.symbol(r.find.symbol())
	if symbol == "" && p.kind == lineAnswer {
		symbol = r.symbols.symbol(addressSymbol(string(p.address)))
	}
	return Frame{Time: p.time, Symbol: symbol, Data: p.body, Line: r.line}, true, nil
}

// open looks for the mark of gzip and sets up the buffers.
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

// readLine returns the next line without its end, borrowed until the next call, or io.EOF. A part of a line before an error is
// dropped: it may be cut anywhere.
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

// counter counts what is read through it.
type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}
