package nats

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"
)

// mark shows whether the data in a folder is the data that the folder last held. It consists of two small files beside the server's own:
//
//   - sluice.lock is locked by the process that uses the folder, which writes it when it begins and when it ends. Its content does not matter.
//     The change time that the file system gives it does, because a copy has another one.
//   - sluice.json, the mark, contains that time, the generation of the folder, the boot ID of the machine, whether the end was clean, a
//     checksum of the files at that end, and how far each stream had come when that was last noted.
//
// If the times or the files do not agree, the folder is a copy, or files in it were replaced or damaged. If the end was not clean and the
// machine was started again since, the disk may lack the last acknowledged publications. In both cases the folder gets another generation, and
// every epoch changes. If only the process was killed, nothing changes: the kernel has everything that the process wrote.
type mark struct {
	dir  string
	lock *os.File

	renewed string // immutable: why there is a new generation, or empty

	mu   sync.Mutex
	have markFile // guarded by mu
}

// markFile is the content of sluice.json.
type markFile struct {
	Generation string          `json:"generation"`
	Boot       string          `json:"boot"`
	Clean      bool            `json:"clean"`
	Changed    string          `json:"changed"`         // change time of sluice.lock
	Files      string          `json:"files,omitempty"` // checksum of the list of all files, after a clean end
	Heads      map[string]head `json:"heads"`           // by stream
}

// head says how far a stream had come.
type head struct {
	Created time.Time `json:"created"` // when the stream was created
	Offset  uint64    `json:"offset"`
	Seen    uint64    `json:"seen,omitempty"`   // the last offset when the stream was last inspected
	Absent  uint64    `json:"absent,omitempty"` // how many publications up to Seen were not stored any more: see absent
}

const (
	lockName = "sluice.lock"
	markName = "sluice.json"
)

// openMark locks a folder for this process, and makes it if it does not exist.
func openMark(dir string) (*mark, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("data folder cannot be created: %w", err)
	}
	isFresh, err := isOurs(dir)
	if err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o640)
	if err != nil {
		return nil, fmt.Errorf("data folder is not writable: %w", err)
	}
	m := &mark{dir: dir, lock: lock}
	if err := lockFile(lock); err != nil {
		return nil, errors.Join(fmt.Errorf("data folder %s is in use by another process: %w; stop that process, or choose another folder", dir, err), lock.Close())
	}
	boot := bootID()
	if m.renewed = m.whyNew(boot, isFresh); isFresh || m.renewed != "" {
		m.have = markFile{Generation: newNonce()}
	}
	m.have.Boot = boot
	if err := m.write(false); err != nil {
		return nil, errors.Join(fmt.Errorf("data folder is not writable: %w", err), lock.Close())
	}
	return m, nil
}

// whyNew reads the mark, and returns the reason why the folder may not hold the data that it last held, or "".
func (m *mark) whyNew(boot string, isFresh bool) string {
	err := m.read()
	switch {
	case isFresh:
		return ""
	case err != nil:
		return fmt.Sprintf("its marker file cannot be read: %v", err)
	case m.have.Generation == "":
		return "its marker file is incomplete"
	case m.have.Changed != changedAt(m.lock):
		return "the folder is a copy, or files in it were replaced"
	case !m.have.Clean && m.have.Boot != boot:
		return "the machine stopped while the folder was in use"
	case m.have.Clean && m.have.Files != filesIn(m.dir):
		return "files in the folder changed while it was not in use"
	}
	return ""
}

// filesIn returns a checksum of the names, sizes and times of the server's files.
func filesIn(dir string) string {
	h := fnv.New64a()
	_ = filepath.WalkDir(filepath.Join(dir, "jetstream"), func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() { // a file that cannot be read is not part of the sum
			if info, err := d.Info(); err == nil {
				_, _ = fmt.Fprintln(h, path[len(dir):], info.Size(), info.ModTime().UnixNano())
			}
		}
		return nil //nolint:nilerr // see above
	})
	return strconv.FormatUint(h.Sum64(), 36)
}

// isOurs reports whether a folder is empty. If it holds other files than ours, isOurs returns an error.
func isOurs(dir string) (isEmpty bool, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false, fmt.Errorf("data folder cannot be read: %w", err)
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	switch {
	case len(names) == 0, slices.Equal(names, []string{"lost+found"}): // the root of a file system
		return true, nil
	case slices.Contains(names, lockName), slices.Contains(names, markName):
		return false, nil
	}
	return false, fmt.Errorf("folder %s is neither empty nor a data folder: choose another folder", dir)
}

func (m *mark) path() string { return filepath.Join(m.dir, markName) }

func (m *mark) read() error {
	text, err := os.ReadFile(m.path())
	if err != nil {
		return err
	}
	return json.Unmarshal(text, &m.have)
}

// write changes the lock file, and writes the mark with its change time.
func (m *mark) write(isClean bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.lock.Truncate(0); err != nil {
		return err
	}
	if _, err := m.lock.WriteAt([]byte(newNonce()+"\n"), 0); err != nil {
		return err
	}
	m.have.Clean, m.have.Changed, m.have.Files = isClean, changedAt(m.lock), ""
	if isClean {
		m.have.Files = filesIn(m.dir)
	}
	return m.saveLocked()
}

// saveLocked replaces sluice.json.
func (m *mark) saveLocked() error {
	text, err := json.MarshalIndent(m.have, "", "  ")
	if err != nil {
		return err
	}
	next := m.path() + ".new"
	if err := os.WriteFile(next, append(text, '\n'), 0o640); err != nil {
		return err
	}
	return os.Rename(next, m.path())
}

func (m *mark) generation() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.have.Generation
}

func (m *mark) noted(stream string) head {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.have.Heads[stream]
}

// missing returns an error if the folder is not the one that was opened, or the mark or the files of a stream are gone.
func (m *mark) missing(heads map[string]head) error {
	opened, err := m.lock.Stat()
	if err != nil {
		return err
	}
	there, err := os.Stat(filepath.Join(m.dir, lockName))
	if err != nil {
		return err
	}
	if !os.SameFile(opened, there) {
		return errors.New("the folder was replaced by another one")
	}
	if _, err := os.Stat(m.path()); err != nil {
		return err
	}
	for stream := range heads {
		if _, err := os.Stat(filepath.Join(m.dir, "jetstream", "$G", "streams", stream, "msgs")); err != nil {
			return err
		}
	}
	return nil
}

// note stores how far streams have come. Streams that are not named keep their entries.
func (m *mark) note(heads map[string]head) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	before, err := json.Marshal(m.have.Heads)
	if err != nil {
		return err
	}
	if m.have.Heads == nil {
		m.have.Heads = make(map[string]head)
	}
	for name, h := range heads {
		m.have.Heads[name] = h
	}
	after, err := json.Marshal(m.have.Heads)
	if err != nil || bytes.Equal(before, after) {
		return err
	}
	return m.saveLocked()
}

// close marks the folder as complete and unlocks it.
func (m *mark) close() error { return errors.Join(m.write(true), unlockFile(m.lock), m.lock.Close()) }
