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

// Checkpoint records in a file which publications of a replay were accepted. After an interruption of any kind, another process can continue
// from there.
//
// A channel's publications are accepted one after the other, in the order of the recordings. So the number of the last accepted frame of each
// channel describes everything that was accepted. The file begins with a line that identifies the replay. A line for each acceptance follows; it
// is appended at once. If the process is killed, only the publications in flight are in doubt, at most one for each worker. From time to time
// the file is rewritten with the newest line of each channel.
type Checkpoint struct {
	path   string
	header header

	mu    sync.Mutex
	last  map[string]int64 // the last accepted frame of each channel
	done  bool
	file  *os.File // open for appending
	lines int      // appended since the last rewrite
	line  []byte   // buffer for the line that is being written
}

// rewriteAfter is how many lines are appended before the file is rewritten. They take about a megabyte.
const rewriteAfter = 1 << 15

// header is the first line of a checkpoint file. It identifies the replay, because the frame numbers have no meaning for other recordings, or
// for other templates of channels and keys.
type header struct {
	Run     string   `json:"run"`
	Target  string   `json:"target"`
	Files   []fileID `json:"files"`
	Channel string   `json:"channel"`
	Key     string   `json:"key"`
}

// fileID identifies a recording by its content, because the file may have been moved, and by the name that {file} stands for.
type fileID struct {
	Name   string `json:"name"`
	SHA256 string `json:"sha256"`
}

// OpenCheckpoint opens the checkpoint in a file, and creates the file if it does not exist. Files, Channel and Key of the options identify the
// replay, and target names the server. It is an error if the checkpoint belongs to another replay. OpenCheckpoint reads the recordings once, to
// hash them. The caller puts the checkpoint into the options, and closes it after [Run]. Two replays cannot use a checkpoint at the same time.
func OpenCheckpoint(path, target string, o Options) (*Checkpoint, error) {
	m := &Checkpoint{path: path, last: map[string]int64{}}
	if err := m.open(target, o); err != nil {
		return nil, fmt.Errorf("replay: checkpoint %s: %w", path, err)
	}
	return m, nil
}

func (m *Checkpoint) open(target string, o Options) error {
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

func fingerprint(name string) (fileID, error) {
	f, err := os.Open(name)
	if err != nil {
		return fileID{}, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return fileID{}, err
	}
	if !info.Mode().IsRegular() {
		return fileID{}, fmt.Errorf("%s is not a regular file: a checkpoint needs files that can be read again", name)
	}
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return fileID{}, err
	}
	return fileID{Name: shortName(name), SHA256: hex.EncodeToString(h.Sum(nil))}, nil
}

// check returns an error if the checkpoint belongs to another replay than the present one.
func (h *header) check(now header) error {
	differs := func(what string, was, is any) error {
		return fmt.Errorf("it belongs to a replay with another %s: %v, not %v; use that one, or another checkpoint file", what, was, is)
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
			return fmt.Errorf("recording %s has changed; use another checkpoint file", f.Name)
		}
	}
	return nil
}

// lineDone is the line that says that every publication was accepted.
const lineDone = "done"

// decode parses the text of a checkpoint file. It ignores an incomplete last line.
func (m *Checkpoint) decode(text []byte) error {
	first, rest, whole := bytes.Cut(text, newline)
	if err := json.Unmarshal(first, &m.header); err != nil || !whole || m.header.Run == "" {
		return errors.New("the file is not a replay checkpoint: use another file")
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
			return fmt.Errorf("line %d is not part of a checkpoint: %.100q", number, line)
		}
		m.last[name] = max(m.last[name], n)
	}
}

// rewrite replaces the file by a shorter one with the same meaning, and opens it for appending. If the machine crashes meanwhile, either the old
// or the new file is intact.
func (m *Checkpoint) rewrite() error {
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
	if err := replaceFile(m.path, text); err != nil {
		return err
	}
	m.lines = 0
	m.file, err = os.OpenFile(m.path, os.O_WRONLY|os.O_APPEND, 0)
	return err
}

// replaceFile replaces a file atomically: it writes and syncs a temporary file, and renames it.
func replaceFile(path string, text []byte) error {
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

// accepted returns the number of the last accepted frame of a channel, and 0 if there is none.
func (m *Checkpoint) accepted(name string) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last[name]
}

// accept records that a frame was accepted for a channel.
func (m *Checkpoint) accept(name string, frame int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last[name] = frame
	if m.lines++; m.lines >= rewriteAfter {
		return m.wrap(m.rewrite())
	}
	m.line = appendLine(m.line[:0], name, frame)
	_, err := m.file.Write(m.line)
	return m.wrap(err)
}

// finish records that every publication was accepted.
func (m *Checkpoint) finish() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.done = true
	return m.wrap(m.rewrite())
}

func (m *Checkpoint) wrap(err error) error {
	if err != nil {
		return fmt.Errorf("replay: checkpoint %s: %w", m.path, err)
	}
	return nil
}

// Done reports whether the replay is complete, so that there is nothing to continue.
func (m *Checkpoint) Done() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.done
}

// Begun reports whether any publication was accepted.
func (m *Checkpoint) Begun() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.last) > 0
}

// Close closes the file but does not remove it. It may be called more than once. The checkpoint must not be used afterwards.
func (m *Checkpoint) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.wrap(m.closeFile())
}

func (m *Checkpoint) closeFile() error {
	if m.file == nil {
		return nil
	}
	f := m.file
	m.file = nil
	return f.Close()
}
