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

// A data folder has two small files beside the server's own, by which it is known whether the data is what this folder last held:
//
//   - sluice.lock is locked by the process that uses the folder, and written anew each time it begins and ends to do so. What
//     matters is not its content but the time at which the file system says it was last changed, which a copy does not have.
//   - sluice.json, the mark, has that time, and with it: the generation of the folder, the boot of the machine, whether the end was
//     a clean one, what files there were then, and how far each stream had come when that was last looked at.
//
// When the times or the files do not agree, the folder is a copy, or files in it were replaced or damaged. When the end was not clean and the
// machine was started anew since, the disk may lack what was acknowledged last. In both cases the folder gets a new generation: every
// epoch changes. A process that was killed changes nothing: what it wrote is in the kernel's hands.
type mark struct {
	dir  string
	lock *os.File

	renewed string // set when made: why there is a new generation, or empty

	mu   sync.Mutex
	have markFile // guarded by mu
}

// markFile is the content of the mark.
type markFile struct {
	Generation string          `json:"generation"`
	Boot       string          `json:"boot"`
	Clean      bool            `json:"clean"`
	Changed    string          `json:"changed"`         // when sluice.lock was last changed
	Files      string          `json:"files,omitempty"` // all files, after a clean end
	Heads      map[string]head `json:"heads"`           // by stream
}

// head is how far a stream had come.
type head struct {
	Created time.Time `json:"created"` // the stream
	Offset  uint64    `json:"offset"`
	Seen    uint64    `json:"seen,omitempty"`   // the offset when it was last looked at
	Absent  uint64    `json:"absent,omitempty"` // how many up to there were not kept any more: see partition.absent
}

const (
	lockName = "sluice.lock"
	markName = "sluice.json"
)

// openMark takes a folder for this process, making it if need be.
func openMark(dir string) (*mark, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("the data folder cannot be made: %w", err)
	}
	isFresh, err := isOurs(dir)
	if err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o640)
	if err != nil {
		return nil, fmt.Errorf("the data folder cannot be written to: %w", err)
	}
	m := &mark{dir: dir, lock: lock}
	if err := lockFile(lock); err != nil {
		return nil, errors.Join(fmt.Errorf("the data folder %s is in use by another process: %w", dir, err), lock.Close())
	}
	boot := bootID()
	if m.renewed = m.whyNew(boot, isFresh); isFresh || m.renewed != "" {
		m.have = markFile{Generation: newNonce()}
	}
	m.have.Boot = boot
	if err := m.write(false); err != nil {
		return nil, errors.Join(fmt.Errorf("the data folder cannot be written to: %w", err), lock.Close())
	}
	return m, nil
}

// whyNew reads the mark and says why what is in the folder cannot be trusted to be what it last held.
func (m *mark) whyNew(boot string, isFresh bool) string {
	err := m.read()
	switch {
	case isFresh:
		return ""
	case err != nil:
		return fmt.Sprintf("its mark cannot be read: %v", err)
	case m.have.Generation == "":
		return "its mark is not complete"
	case m.have.Changed != changedAt(m.lock):
		return "it is a copy, or files in it were replaced"
	case !m.have.Clean && m.have.Boot != boot:
		return "the machine stopped while it was in use"
	case m.have.Clean && m.have.Files != filesIn(m.dir):
		return "files in it were changed while it was not in use"
	}
	return ""
}

// filesIn identifies all files of the server by their names, sizes and times.
func filesIn(dir string) string {
	h := fnv.New64a()
	_ = filepath.WalkDir(filepath.Join(dir, "jetstream"), func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() { // what cannot be read is missing in the sum
			if info, err := d.Info(); err == nil {
				_, _ = fmt.Fprintln(h, path[len(dir):], info.Size(), info.ModTime().UnixNano())
			}
		}
		return nil //nolint:nilerr // see above
	})
	return strconv.FormatUint(h.Sum64(), 36)
}

// isOurs reports whether a folder is empty, and refuses one that holds other things.
func isOurs(dir string) (isEmpty bool, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false, fmt.Errorf("the data folder cannot be read: %w", err)
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	switch {
	case len(names) == 0, slices.Equal(names, []string{"lost+found"}): // a file system of its own
		return true, nil
	case slices.Contains(names, lockName), slices.Contains(names, markName):
		return false, nil
	}
	return false, fmt.Errorf("the folder %s is not empty, and is not a data folder: choose another one", dir)
}

func (m *mark) path() string { return filepath.Join(m.dir, markName) }

func (m *mark) read() error {
	text, err := os.ReadFile(m.path())
	if err != nil {
		return err
	}
	return json.Unmarshal(text, &m.have)
}

// write touches the lock and writes the mark that goes with it.
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

// saveLocked replaces the file of the mark.
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
		return errors.New("another folder was put in its place")
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

// note keeps how far streams have come; of those that are not named, what is known stays.
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

// close marks the folder as complete and lets go of it.
func (m *mark) close() error { return errors.Join(m.write(true), unlockFile(m.lock), m.lock.Close()) }
