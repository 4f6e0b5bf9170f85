package sluice_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
)

// plant parses sources given by name as if they were a repository.
func plant(t *testing.T, files map[string]string) []folder {
	t.Helper()
	tree := make(fstest.MapFS)
	for name, text := range files {
		tree[name] = &fstest.MapFile{Data: []byte(text)}
	}
	folders, err := parseTree(tree)
	if err != nil {
		t.Fatal(err)
	}
	return folders
}

// expect compares complaints with what has to be in them, in order.
func expect(t *testing.T, got []string, want ...string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("complaints: %q, want %d", got, len(want))
	}
	for i := range want {
		if !strings.Contains(got[i], want[i]) {
			t.Errorf("complaint %q does not contain %q", got[i], want[i])
		}
	}
}

// importing returns a file that imports the paths.
func importing(paths ...string) string {
	text := "// Package x is planted.\npackage x\n"
	for _, p := range paths {
		text += fmt.Sprintf("import _ %q\n", p)
	}
	return text
}

var plantedTable = map[string]layer{
	".":            {},
	"codec":        {},
	"session":      {ours: []string{"codec"}},
	"push":         {},
	"push/hub":     {ours: []string{"push"}},
	"push/config":  {ours: []string{"push"}, foreign: []string{"example.com/yaml"}, tests: []string{"example.com/server"}},
	"internal/...": {},
	"cmd/...":      {any: true},
}

func TestPlantedLayers(t *testing.T) {
	ours := func(name string) string { return modulePath + "/" + name }
	tests := []struct {
		name, file, text, want string
	}{
		{"library on standard library", "codec/a.go", importing("net/http", "C", "unsafe"), ""},
		{"library on helper", "codec/a.go", importing(ours("internal/bits")), ""},
		{"upper on lower", "session/a.go", importing(ours("codec")), ""},
		{"lower on upper", "codec/a.go", importing(ours("session")), "codec/a.go:3: codec imports " + ours("session") + ": its row"},
		{"library on platform", "session/a.go", importing(ours("push")), "the library does not know the platform"},
		{"library on platform in a test", "session/a_test.go", importing(ours("push/hub")), "the library does not know the platform"},
		{"library on foreign", "codec/a.go", importing("example.com/yaml"), "only the standard library"},
		{"library on foreign in a test", "codec/a_test.go", importing("pgregory.net/rapid"), ""},
		{"library on unknown foreign in a test", "codec/a_test.go", importing("example.com/yaml"), "only the standard library"},
		{"name that begins like a module", "codec/a_test.go", importing("pgregory.net/rapid2"), "only the standard library"},
		{"platform down", "push/hub/a.go", importing(ours("push")), ""},
		{"platform up", "push/a.go", importing(ours("push/hub")), "its row"},
		{"platform up in a test", "push/a_test.go", importing(ours("push/hub"), ours("codec")), ""},
		{"platform on library without a row", "push/hub/a.go", importing(ours("codec")), "its row"},
		{"platform on its module", "push/config/a.go", importing("example.com/yaml/ast"), ""},
		{"platform on another module", "push/config/a.go", importing("example.com/toml"), "not in its row"},
		{"module of tests", "push/config/a_test.go", importing("example.com/server"), ""},
		{"module of tests outside tests", "push/config/a.go", importing("example.com/server"), "not in its row"},
		{"helper on platform", "internal/bits/a.go", importing(ours("push")), "the library does not know the platform"},
		{"own tests", "session/a_test.go", importing(ours("session")), ""},
		{"root", "codec/a.go", importing(modulePath), "the root holds no code"},
		{"binary on anything", "cmd/sluice/a.go", importing(ours("push/hub"), ours("session"), "example.com/cli"), ""},
		{"package without a row", "push/extra/a.go", importing(), "package push/extra has no row in the table of layers_test.go: add one"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := checkLayers(plantedTable, plant(t, map[string]string{tt.file: tt.text}))
			if tt.want == "" {
				expect(t, got)
			} else {
				expect(t, got, tt.want)
			}
		})
	}
}

func TestPlantedTree(t *testing.T) {
	bad := importing("example.com/no")
	folders := plant(t, map[string]string{
		"go.mod":                 "module " + modulePath,
		"codec/a.go":             importing(),
		"codec/a_test.go":        importing(),
		"codec/testdata/bad.go":  "this is not Go",
		".hidden/bad.go":         "neither is this",
		"node_modules/x/bad.go":  "nor this",
		"bench/go.mod":           "module example.com/bench",
		"bench/peer/a.go":        bad,
		"benchmark/a.go":         bad,
		"session/zz.go":          importing(),
		"session/aa_test.go":     importing(),
		"push/config/readme.txt": "not Go",
	})
	var names []string
	for _, f := range folders {
		names = append(names, fmt.Sprintf("%s/%t/%d", f.name, f.foreign, len(f.files)))
	}
	want := "bench/peer/true/1 benchmark/false/1 codec/false/2 session/false/2"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("folders: %s, want %s", got, want)
	}
	if first := folders[3].files[0].name; first != "session/zz.go" {
		t.Errorf("the first file of session is %s, want the one that is no test", first)
	}
	expect(t, checkLayers(plantedTable, folders), "package benchmark has no row")
	if _, err := parseTree(fstest.MapFS{"a/a.go": {Data: []byte("no Go")}}); err == nil {
		t.Error("a file that is not Go was parsed")
	}
}

func TestPlantedCycle(t *testing.T) {
	if cycle := findCycle(plantedTable); cycle != nil {
		t.Errorf("circle %v in a table without", cycle)
	}
	table := map[string]layer{"a": {ours: []string{"b"}}, "b": {ours: []string{"c", "h/..."}}, "c": {ours: []string{"a"}}, "h/...": {}}
	if cycle := findCycle(table); len(cycle) != 4 || cycle[0] != cycle[3] {
		t.Errorf("circle %v, want one of three packages", cycle)
	}
}

func TestPlantedSizes(t *testing.T) {
	function := func(lines int) string { return "func f() {" + strings.Repeat("\n", lines-1) + "}\n" }
	head := "// Package x is planted.\npackage x\n"
	tests := []struct {
		name, file, text string
		want             []string
	}{
		{"long file", "a/a.go", head + strings.Repeat("\n", 498), nil},
		{"too long file", "a/a.go", head + strings.Repeat("\n", 499), []string{"a/a.go has 501 lines, at most 500"}},
		{"too long test", "a/a_test.go", head + strings.Repeat("\n", 499), []string{"a/a_test.go has 501 lines"}},
		{"generated", "a/a.go", "// Code generated by a tool. DO NOT EDIT.\n\n" + head + strings.Repeat("\n", 9999), nil},
		{"long function", "a/a.go", head + function(70), nil},
		{"too long function", "a/a.go", head + "// f is\n// planted.\n" + function(71), []string{"a/a.go:5: f has 71 lines, at most"}},
		{"parameters", "a/a.go", head + "func (x *T) f(a, b, c int, d, e string) {}\n", nil},
		{"too many parameters", "a/a.go", head + "func f(a, b, c int, d, e string, g ...int) {}\n", []string{"f has 6 parameters"}},
		{"results", "a/a.go", head + "func f() (int, int, error) { return 0, 0, nil }\n", nil},
		{"too many results", "a/a.go", head + "func f() (a, b, c int, err error) { return }\n", []string{"f has 4 results"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			expect(t, checkSizes(plant(t, map[string]string{tt.file: tt.text})), tt.want...)
		})
	}
}

func TestPlantedPackageSize(t *testing.T) {
	files := make(map[string]string)
	for i := range 7 {
		files[fmt.Sprintf("a/f%d.go", i)] = "package a\n" + strings.Repeat("\n", 499)
	}
	files["a/f_test.go"] = "package a\n"
	expect(t, checkSizes(plant(t, files)))
	files["a/g.go"] = "package a\n"
	expect(t, checkSizes(plant(t, files)), "package a has 3501 lines without tests, at most 3500")
}

func TestPlantedSmallPackages(t *testing.T) {
	files := map[string]string{
		"a/internal/b/b.go": "package b\n", "a/internal/big/big.go": "package big\n" + strings.Repeat("\n", 299), "internal/two/two.go": "package two\n",
		"a/a.go": fmt.Sprintf("package a\nimport (\n%q\n%q\n%q\n)\n", modulePath+"/a/internal/b", modulePath+"/internal/two", modulePath+"/a/internal/big"),
		"c/c.go": fmt.Sprintf("package c\nimport %q\n", modulePath+"/internal/two"),
	}
	expect(t, checkSmallPackages(plant(t, files), nil), "package a/internal/b has 1 lines and one importer")
	expect(t, checkSmallPackages(plant(t, files), map[string]string{"a/internal/b": "x", "internal/two": "y"}), "package internal/two needs no reason")
}

func TestPlantedHabits(t *testing.T) {
	head := "// Package x is planted.\npackage x\n"
	later := "TO" + "DO"
	tests := []struct {
		name, file, text string
		want             []string
	}{
		{"documented", "a/a.go", head + documented, nil},
		{"no package comment", "a/a.go", "package x\n", []string{"package a has no package comment"}},
		{"only tests", "a/a_test.go", "package x_test\n", nil},
		{"function", "a/a.go", head + "func F() {}\n", []string{"a/a.go:3: F has no comment"}},
		{"method", "a/a.go", head + "type T[K any] struct{} // a type\nfunc (t *T[K]) M() {}\n", []string{"M has no comment"}},
		{"hidden method", "a/a.go", head + "type t struct{}\nfunc (t) M() {}\n", nil},
		{"type", "a/a.go", head + "type T int\n", []string{"T has no comment"}},
		{"type in a group", "a/a.go", head + "// Types.\ntype (\n\tT int\n)\n", []string{"T has no comment"}},
		{"constant", "a/a.go", head + "const (\n\tA = 1 // one\n\tB = 2\n)\n", []string{"a/a.go:5: B has no comment"}},
		{"variable", "a/a.go", head + "var A, b, C = 1, 2, 3\n", []string{"A has no comment", "C has no comment"}},
		{"command", "cmd/a/a.go", "// Command a is planted.\npackage main\nfunc F() {}\n", nil},
		{"internal", "internal/a/a.go", head + "func F() {}\n", nil},
		{"generated", "a/a.go", "// Code generated by a tool. DO NOT EDIT.\n\n" + head + "func F() {}\n", nil},
		{"unfinished", "a/a.go", head + "// " + later + ": the rest.\n", []string{"a/a.go:3: " + later + " in a comment"}},
		{"unfinished test", "a/a_test.go", head + "func f() {\n\t_ = 1 // FIX" + "ME\n}\n", []string{"a comment: do it"}},
		{"word in text", "a/a.go", head + "const a = \"" + later + "\"\n", nil},
		{"sleep", "a/a_test.go", head + "func f() { time.Sl" + "eep(1) }\n", []string{"a/a_test.go:3: a test sleeps"}},
		{"sleep outside tests", "a/a.go", head + "func f() { time.Sl" + "eep(1) }\n", nil},
		{"skip", "a/a_test.go", head + "func f(tb *T) { tb.SkipNow() }\n", []string{"a test is skipped"}},
		{"skip of something else", "a/a_test.go", head + "func f() { reader.Skip(3) }\n", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			expect(t, checkHabits(plant(t, map[string]string{tt.file: tt.text})), tt.want...)
		})
	}
}

const documented = `
// F is documented.
func F() {}

func f() {}

// T is documented.
type T struct{ A int }

// M is documented.
func (T) M() {}

// These are documented together.
const (
	A = iota
	B
)

var (
	C = 1 // at the end of the line
	d = 2
)

type (
	// U is documented.
	U int
	v int
)
`
