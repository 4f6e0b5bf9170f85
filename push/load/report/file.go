package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/sluice-push/sluice/push/load"
)

// form is the number of the form of results that this package knows.
const form = 1

// ErrForm is what [Read] returns for a result in a form that this program does not know.
var ErrForm = errors.New("written by another version of this program")

// mostFile is how large a file of a result may be, in bytes: a run of a week has 100 MB of moments.
const mostFile = 256 << 20

// Write writes a result as JSON, with its form number set. The result is not changed.
func Write(w io.Writer, r *load.Result) error {
	copied := *r
	copied.Form = form
	text, err := json.MarshalIndent(&copied, "", "  ")
	if err != nil {
		return fmt.Errorf("report: write a result: %w", err)
	}
	_, err = w.Write(append(text, '\n'))
	return err
}

// Read reads what Write has written: one result and nothing after it. An error says what else was found; [ErrForm] is among them.
func Read(r io.Reader) (*load.Result, error) {
	text, err := io.ReadAll(io.LimitReader(r, mostFile+1))
	if err != nil {
		return nil, fmt.Errorf("report: read a result: %w", err)
	}
	if len(text) > mostFile {
		return nil, fmt.Errorf("report: read a result: more than %s", binary(mostFile))
	}
	var head struct {
		Form *int `json:"form"`
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return nil, fmt.Errorf("report: read a result: this is not one, or only a part of it: %w", err)
	}
	switch {
	case head.Form == nil:
		return nil, errors.New("report: read a result: this is JSON, but no result of a load run: it has no form number")
	case *head.Form != form:
		return nil, fmt.Errorf("report: read a result: it has form %d, this program knows form %d: %w", *head.Form, form, ErrForm)
	}
	var result load.Result // fields that are not known were added since, without changing what the others mean
	if err := json.Unmarshal(text, &result); err != nil {
		return nil, fmt.Errorf("report: read a result: %w", err)
	}
	return &result, nil
}

// File is where a result will be kept. It is made before the run, so that nobody learns after an hour that it cannot be written, and has
// its name only when it is whole: what was there before stays until then.
type File struct {
	path string
	f    *os.File
}

// Create makes a file beside path, with the suffix ".part". Either Keep or Drop ends it.
func Create(path string) (*File, error) {
	f, err := os.OpenFile(path+".part", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
	if err != nil {
		return nil, fmt.Errorf("report: the file of the result: %w", err)
	}
	return &File{path: path, f: f}, nil
}

// Keep writes the result and gives the file its name.
func (f *File) Keep(r *load.Result) error {
	err := Write(f.f, r)
	if closeErr := f.f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(f.f.Name(), f.path)
	}
	if err != nil {
		_ = os.Remove(f.f.Name())
		return fmt.Errorf("report: the file of the result: %w", err)
	}
	return nil
}

// Drop removes the file: there is no result.
func (f *File) Drop() {
	_ = f.f.Close() // nothing was written
	_ = os.Remove(f.f.Name())
}

// Open reads the result in a file. An error names the file.
func Open(path string) (*load.Result, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	defer func() { _ = f.Close() }() // it was read
	r, err := Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}
