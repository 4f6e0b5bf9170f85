package replay

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
)

// Mark keeps in a file what of a replay was accepted, so that another process can go on after an interruption of any kind.
//
// A channel's publications are accepted one after the other, in the order of the recordings. So what was accepted of a channel is
// everything up to one frame, and the last of them for each channel says everything. The file is a line that says what is
// replayed, then a line for each acceptance, appended as it comes: when the process is killed, all that is in doubt is what
// was being published at that moment, at most one publication for each lane. Now and then the file is written anew, with the newest line of
// each channel.
type Mark struct {
	path   string
	header header

	mu    sync.Mutex
	last  map[string]int64 // the last accepted frame of each channel
	done  bool
	file  *os.File // open for appending
	lines int      // appended since the file was written anew
	line  []byte   // the one being written
}

// manyLines is how many lines are appended before the file is written anew: about a megabyte.
const manyLines = 1 << 15

// header is the first line of a mark. A mark is for one replay only: other recordings, or other names for the channels, would make
// its numbers mean something else.
type header struct {
	Run     string       `json:"run"`
	Target  string       `json:"target"`
	Files   []markedFile `json:"files"`
	Channel string       `json:"channel"`
	Key     string       `json:"key"`
}

// markedFile is a recording: by its content, for it may have been moved, and by the name that {file} stands for.
type markedFile struct {
	Name   string `json:"name"`
	SHA256 string `json:"sha256"`
}

// OpenMark opens the mark in a file, and makes it if there is none. Files, Channel and Key of the options say what is replayed, target
// says where to; it is an error if the mark belongs to something else. The recordings are read once, to know them again.
// The caller puts the mark into the options and closes it after [Run]; two replays at once cannot share one.
func OpenMark(path, target string, o Options) (*Mark, error) {
	m := &Mark{path: path, last: map[string]int64{}}
	if err := m.open(target, o); err != nil {
		return nil, fmt.Errorf("replay: mark %s: %w", path, err)
	}
	return m, nil
}

func (m *Mark) open(target string, o Options) error {
	want := header{Run: rand.Text(), Target: target, Channel: o.Channel, Key: o.Key}
	for _, name := range o.Files {
		f, err := fingerprint(name)
		if err != nil {
			return err
		}
		want.Files = append(want.Files, f)
	}
	text, err := os.ReadFile(m.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		m.header = want
	case err != nil:
		return err
	default:
		if err := m.decode(text); err != nil {
			return err
		}
		if err := m.header.check(want); err != nil {
			return err
		}
	}
	return m.rewrite()
}

func fingerprint(name string) (markedFile, error) {
	f, err := os.Open(name)
	if err != nil {
		return markedFile{}, err
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return markedFile{}, fmt.Errorf("%s is no regular file, it cannot be read again (%w)", name, err)
	}
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return markedFile{}, err
	}
	return markedFile{Name: shortName(name), SHA256: hex.EncodeToString(h.Sum(nil))}, nil
}

// check returns an error when what is replayed is not what the mark is of.
func (h *header) check(now header) error {
	differs := func(what string, was, is any) error {
		return fmt.Errorf("it is of a replay with another %s: %v, not %v; go on with that, or name another mark", what, was, is)
	}
	switch {
	case h.Target != now.Target:
		return differs("address", h.Target, now.Target)
	case h.Channel != now.Channel:
		return differs("channel", h.Channel, now.Channel)
	case h.Key != now.Key:
		return differs("key", strconv.Quote(h.Key), strconv.Quote(now.Key))
	case len(h.Files) != len(now.Files):
		return differs("number of files", len(h.Files), len(now.Files))
	}
	for i, f := range h.Files {
		switch is := now.Files[i]; {
		case f.Name != is.Name:
			return differs("file", f.Name, is.Name)
		case f.SHA256 != is.SHA256:
			return fmt.Errorf("the file %s is not what it was; name another mark", f.Name)
		}
	}
	return nil
}

// lineDone says that everything was accepted.
const lineDone = "done"

// decode reads the text of a mark. A last line that was not written to its end is left out.
func (m *Mark) decode(text []byte) error {
	first, rest, whole := bytes.Cut(text, newline)
	if err := json.Unmarshal(first, &m.header); err != nil || !whole || m.header.Run == "" {
		return errors.New("it is no mark of a replay")
	}
	for number := 2; ; number++ {
		line, after, whole := bytes.Cut(rest, newline)
		if !whole {
			return nil
		}
		rest = after
		if string(line) == lineDone {
			m.done = true
			continue
		}
		frame, quoted, _ := bytes.Cut(line, []byte{' '})
		n, err := strconv.ParseInt(string(frame), 10, 64)
		name, nameErr := strconv.Unquote(string(quoted))
		if err != nil || nameErr != nil || n <= 0 {
			return fmt.Errorf("line %d is not one of a mark: %.100q", number, line)
		}
		m.last[name] = max(m.last[name], n)
	}
}

// rewrite replaces the file by a new one that says the same in fewer lines, and opens that for appending. Whenever the machine stops,
// one of the two is there as a whole.
func (m *Mark) rewrite() error {
	text, err := json.Marshal(m.header)
	if err != nil {
		return err
	}
	text = append(text, '\n')
	for _, name := range slices.Sorted(maps.Keys(m.last)) {
		text = appendLine(text, name, m.last[name])
	}
	if m.done {
		text = append(text, lineDone+"\n"...)
	}
	if err := m.closeFile(); err != nil {
		return err
	}
	if err := replace(m.path, text); err != nil {
		return err
	}
	m.lines = 0
	m.file, err = os.OpenFile(m.path, os.O_WRONLY|os.O_APPEND, 0)
	return err
}

// replace writes a file anew, at once as others see it.
func replace(path string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

func appendLine(dst []byte, name string, frame int64) []byte {
	dst = append(strconv.AppendInt(dst, frame, 10), ' ')
	return append(strconv.AppendQuote(dst, name), '\n')
}

// accepted returns the last accepted frame of a channel, 0 when there is none.
func (m *Mark) accepted(name string) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last[name]
}

// accept notes that a frame was accepted for a channel.
func (m *Mark) accept(name string, frame int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last[name] = frame
	if m.lines++; m.lines >= manyLines {
		return m.wrap(m.rewrite())
	}
	m.line = appendLine(m.line[:0], name, frame)
	_, err := m.file.Write(m.line)
	return m.wrap(err)
}

// finish notes that everything was accepted.
func (m *Mark) finish() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.done = true
	return m.wrap(m.rewrite())
}

func (m *Mark) wrap(err error) error {
	if err != nil {
		return fmt.Errorf("replay: mark %s: %w", m.path, err)
	}
	return nil
}

// Done reports whether the replay has come to its end: there is nothing to go on with.
func (m *Mark) Done() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.done
}

// Begun reports whether anything was accepted.
func (m *Mark) Begun() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.last) > 0
}

// Close closes the file, which stays. Closing again does nothing. Nothing may be replayed with the mark afterwards.
func (m *Mark) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.wrap(m.closeFile())
}

func (m *Mark) closeFile() error {
	if m.file == nil {
		return nil
	}
	f := m.file
	m.file = nil
	return f.Close()
}
