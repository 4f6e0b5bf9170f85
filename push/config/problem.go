package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Error contains all problems of a configuration. Problems is never empty. The problems of the file come first, in the order of its lines, then
// those of variables and flags by name.
type Error struct {
	Problems []Problem
}

// Error returns the problems, one a line.
func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	if len(lines) == 1 {
		return "config: " + lines[0]
	}
	return fmt.Sprintf("config: %d problems:\n  %s", len(lines), strings.Join(lines, "\n  "))
}

// Problem is one mistake in a configuration.
type Problem struct {
	// Key is the path of the key ("namespaces[1].name"), or the name of the variable. It is empty if the problem concerns the file as a whole.
	Key string
	// Message says what is wrong.
	Message string
	// Source is the file, the variable ("SLUICE_LISTEN") or the flag ("flag listen"). It is empty for a value that was set by code.
	Source string
	// Line and Column are the place in Source, from 1. They are 0 if Source is not YAML text.
	Line, Column int
	// Nearest is the known name that was probably meant; empty if none is similar.
	Nearest string
}

// String returns the problem in one line: "namspaces: unknown key, did you mean namespaces? (config.yaml:7:1)".
func (p Problem) String() string {
	var b strings.Builder
	if p.Key != "" {
		b.WriteString(p.Key + ": ")
	}
	b.WriteString(p.Message)
	if p.Nearest != "" {
		fmt.Fprintf(&b, ", did you mean %s?", p.Nearest)
	}
	switch {
	case p.Line > 0:
		fmt.Fprintf(&b, " (%s:%d:%d)", p.Source, p.Line, p.Column)
	case p.Source != "":
		b.WriteString(" (" + p.Source + ")")
	}
	return b.String()
}

// origin is the source of a value, and the place in it.
type origin struct {
	kind         originKind
	name         string
	line, column int
}

type originKind uint8

const (
	fromCode originKind = iota
	fromFile
	fromEnv
	fromFlag
)

// report collects the problems of one load. It also remembers the origin of each value, by the path of its key.
type report struct {
	problems []located
	origins  map[string]origin
}

// located is a problem with its sort key.
type located struct {
	Problem
	kind originKind
}

func newReport() *report { return &report{origins: make(map[string]origin)} }

// add adds a problem at a known place.
func (r *report) add(key string, at origin, format string, args ...any) *located {
	r.problems = append(r.problems, located{
		Problem: Problem{Key: key, Message: fmt.Sprintf(format, args...), Source: at.name, Line: at.line, Column: at.column},
		kind:    at.kind,
	})
	return &r.problems[len(r.problems)-1]
}

// set records the origin of the value of a key, and drops those of the keys below it.
func (r *report) set(key string, at origin) {
	for k := range r.origins {
		if below(k, key) {
			delete(r.origins, k)
		}
	}
	r.origins[key] = at
}

// invalid adds a problem for a value out of range, at its origin. If the key, or one above it, already has a problem, invalid does nothing: the
// value is then not the operator's.
func (r *report) invalid(key, format string, args ...any) {
	for _, p := range r.problems {
		if p.Key == key || below(key, p.Key) {
			return
		}
	}
	at, k := origin{}, key
	for k != "" {
		if o, ok := r.origins[k]; ok {
			at = o
			break
		}
		k = parent(k)
	}
	r.add(key, at, format, args...)
}

// err returns the problems as an *Error, nil if there are none.
func (r *report) err() error {
	if len(r.problems) == 0 {
		return nil
	}
	slices.SortStableFunc(r.problems, func(a, b located) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.Source, b.Source),
			cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	e := &Error{}
	for _, p := range r.problems {
		e.Problems = append(e.Problems, p.Problem)
	}
	return e
}

// parent returns the path of the key above key, empty for a key at the top.
func parent(key string) string { return key[:max(strings.LastIndexAny(key, ".["), 0)] }

// below reports whether key lies below the key at path.
func below(key, path string) bool {
	rest, ok := strings.CutPrefix(key, path)
	return ok && path != "" && rest != "" && (rest[0] == '.' || rest[0] == '[')
}

// nearest returns the name that was probably meant by a misspelt one, empty if none is similar.
func nearest(misspelt string, names []string) string {
	const most = 64 // longer than any name
	if len(misspelt) > most {
		return ""
	}
	best, least := "", max(2, len(misspelt)/3)+1
	for _, name := range names {
		if d := editDistance(misspelt, name); d < least {
			best, least = name, d
		}
	}
	return best
}

// editDistance returns the number of bytes to insert, delete or replace to turn a into b. A swap of two neighbours counts once, and case is
// ignored.
func editDistance(a, b string) int {
	a, b = strings.ToLower(a), strings.ToLower(b)
	two, one, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range one {
		one[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := one[j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			row[j] = min(one[j]+1, row[j-1]+1, change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], two[j-2]+1)
			}
		}
		two, one, row = one, row, two
	}
	return one[len(b)]
}
