package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest"
)

// formatVersion is the version of the result format that this package reads and writes.
const formatVersion = 1

// ErrFormat is in the error that [Read] returns for a result in an unknown version of the format.
var ErrFormat = errors.New("result written by another version of the program")

// maxFileSize is the maximum size of a result file in bytes. The moments of a week take about 100 MB.
const maxFileSize = 256 << 20

// Write writes a result as JSON, with Format set. It does not change the result.
func Write(w io.Writer, r *loadtest.Result) error {
	copied := *r
	copied.Format = formatVersion
	text, err := json.MarshalIndent(&copied, "", "  ")
	if err != nil {
		return fmt.Errorf("report: write a result: %w", err)
	}
	_, err = w.Write(append(text, '\n'))
	return err
}

// Read reads one result that Write has written. It returns an error if it finds anything else, or anything after the result. If the version of
// the format is unknown, the error wraps [ErrFormat].
func Read(r io.Reader) (*loadtest.Result, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxFileSize+1))
	if err != nil {
		return nil, fmt.Errorf("report: read a result: %w", err)
	}
	if len(text) > maxFileSize {
		return nil, fmt.Errorf("report: read a result: larger than %s", binary(maxFileSize))
	}
	var head struct {
		Format *int `json:"format"`
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return nil, fmt.Errorf("report: read a result: not a result file, or incomplete: %w", err)
	}
	switch {
	case head.Format == nil:
		return nil, errors.New("report: read a result: not a result file: it has no format number")
	case *head.Format != formatVersion:
		return nil, fmt.Errorf("report: read a result: format %d, expected format %d: %w", *head.Format, formatVersion, ErrFormat)
	}
	var result loadtest.Result // unknown fields are later additions, which do not change the others
	if err := json.Unmarshal(text, &result); err != nil {
		return nil, fmt.Errorf("report: read a result: %w", err)
	}
	return &result, nil
}

// File is a result file that is being written. It is created before the run, so that a run of an hour does not end with a file that cannot be
// written. It gets its name only when it is complete. Until then, an older file of that name stays.
type File struct {
	path string
	f    *os.File
}

// Create creates a file beside path, with the suffix ".part". The caller ends it with either Keep or Drop.
func Create(path string) (*File, error) {
	f, err := os.OpenFile(path+".part", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
	if err != nil {
		return nil, fmt.Errorf("report: result file: %w", err)
	}
	return &File{path: path, f: f}, nil
}

// Keep writes the result and renames the file to its path. After an error the file is removed.
func (f *File) Keep(r *loadtest.Result) error {
	err := Write(f.f, r)
	if closeErr := f.f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(f.f.Name(), f.path)
	}
	if err != nil {
		_ = os.Remove(f.f.Name())
		return fmt.Errorf("report: result file: %w", err)
	}
	return nil
}

// Drop removes the file, because there is no result.
func (f *File) Drop() {
	_ = f.f.Close() // nothing was written
	_ = os.Remove(f.f.Name())
}

// Open reads the result in a file. An error names the file.
func Open(path string) (*loadtest.Result, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	defer func() { _ = f.Close() }() // reading is complete
	r, err := Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}
