package sluice_test

// What the tests of the house stand on: the source files of a repository, parsed but not compiled, as values that the checks in
// layers_test.go and sizes_test.go are functions of. The checks are tested with sources planted in planted_test.go.

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
)

// modulePath is the module of library and platform; import paths below it are ours.
const modulePath = "github.com/sluice-push/sluice"

// source is one parsed Go file.
type source struct {
	name  string // path from the root of the repository, with slashes
	fset  *token.FileSet
	file  *ast.File
	lines int
}

// folder is a package: the files of one folder, of the package itself and its tests.
type folder struct {
	name    string // path from the root of the repository; "." is the root
	foreign bool   // belongs to another module of the repository
	files   []source
}

// isTest reports whether the file is compiled for tests only.
func (s source) isTest() bool { return strings.HasSuffix(s.name, "_test.go") }

// line returns the line of a position in the file.
func (s source) line(p token.Pos) int { return s.fset.Position(p).Line }

// isMain reports whether the folder is a command.
func (f folder) isMain() bool { return len(f.files) > 0 && f.files[0].file.Name.Name == "main" }

// isInternal reports whether nobody outside the repository can import the folder.
func (f folder) isInternal() bool { return slices.Contains(strings.Split(f.name, "/"), "internal") }

// parseSource parses one file.
func parseSource(name string, text []byte) (source, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return source{}, err
	}
	lines := strings.Count(string(text), "\n")
	return source{name: name, fset: fset, file: file, lines: lines}, nil
}

// parseTree parses all Go files below root that belong to the repository, by folder, ordered by name.
func parseTree(root fs.FS) ([]folder, error) {
	byName, modules := make(map[string]*folder), []string(nil)
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			hidden := strings.HasPrefix(d.Name(), ".") && name != "."
			if hidden || d.Name() == "testdata" || d.Name() == "node_modules" {
				return fs.SkipDir
			}
			return nil
		}
		if d.Name() == "go.mod" && name != "go.mod" {
			modules = append(modules, path.Dir(name))
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		s, err := parseSource(name, text)
		if err != nil {
			return err
		}
		dir := path.Dir(name)
		if byName[dir] == nil {
			byName[dir] = &folder{name: dir}
		}
		byName[dir].files = append(byName[dir].files, s)
		return nil
	})
	if err != nil {
		return nil, err
	}
	var folders []folder
	for _, f := range byName {
		f.foreign = slices.ContainsFunc(modules, func(m string) bool { return f.name == m || strings.HasPrefix(f.name, m+"/") })
		// The package itself before its tests, which may be of a package of their own.
		slices.SortStableFunc(f.files, func(a, b source) int {
			if a.isTest() != b.isTest() {
				if b.isTest() {
					return -1
				}
				return 1
			}
			return strings.Compare(a.name, b.name)
		})
		folders = append(folders, *f)
	}
	slices.SortFunc(folders, func(a, b folder) int { return strings.Compare(a.name, b.name) })
	return folders, nil
}

// repository parses this repository.
func repository(t *testing.T) []folder {
	t.Helper()
	folders, err := parseTree(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	if len(folders) < 2 {
		t.Fatalf("only %d folders with Go files found", len(folders))
	}
	return folders
}

// complain fails the test with each complaint.
func complain(t *testing.T, complaints []string) {
	t.Helper()
	for _, c := range complaints {
		t.Error(c)
	}
}
