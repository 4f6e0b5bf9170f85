package sluice_test

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The limits of size, which are smoke detectors: code that exceeds one has usually got two subjects. Raise one only in a commit that says why.
// Generated files have none.
const (
	maxFileLines     = 500
	maxFuncLines     = 70
	maxParams        = 5
	maxResults       = 3
	maxPackageLines  = 3500 // without tests
	fewLines         = 300  // an internal package with fewer lines has two importers, or a reason
	fewLinesImporter = 1
)

// largerPackages may have more lines, each for a reason. The number is a little above what they have.
var largerPackages = map[string]int{
	// The public API, whose comments are half of it, the life of a session, and its glue to three engines. The engines themselves, the write
	// path and sockets are packages of their own. The glue to event loops (1,300 lines, with TLS and zero copy) uses the session's fields at
	// each step; an interface between the two would be as large as the code.
	"session": 5850, // with TLS that others have begun

	// Channels, sessions and fan-out share one lock order. Three packages were drawn up: they would call each other in both directions.
	// The stream of a channel's joins begins and ends with a subscription under the same lock; what its events are is in push/presence.
	"push/hub": 4250,

	// One run: what clients do, what is published and what is counted share the shards of the clients. What stands alone is in folders below.
	"cmd/sluice/internal/loadtest": 3600,

	"push/broker/nats": 3900, // one embedded server, one protocol; what other brokers share is in push/broker
}

// smallPackages are internal packages of less than fewLines lines that a single package imports. Each has a reason.
var smallPackages = map[string]string{
	"cmd/sluice/internal/capacity":           "what the machine has, tested on texts of the kernel without a node",
	"cmd/sluice/internal/loadtest/hostclock": "files for each system, and a test that starts processes",
	"cmd/sluice/internal/loadtest/process":   "processes that are started and ended, without what is said to them",
	"internal/testwait":                      "the tests of all packages wait with it",
	"push/internal/agehist":                  "a histogram that knows nothing of channels, with tests of its own",
}

// Files, functions and packages stay small enough to be read.
func TestSizes(t *testing.T) {
	complain(t, checkSizes(repository(t)))
}

// An internal package that is small and has a single importer is usually a part of that importer.
func TestSmallPackages(t *testing.T) {
	complain(t, checkSmallPackages(repository(t), smallPackages))
}

// checkSmallPackages returns a complaint for each small internal package that a single package imports and that has no reason, and for each
// reason that no package needs.
func checkSmallPackages(folders []folder, reasons map[string]string) []string {
	importers := make(map[string]map[string]bool)
	lines := make(map[string]int)
	for _, f := range folders {
		for _, s := range f.files {
			if s.isTest() {
				continue
			}
			lines[f.name] += s.lines
			for _, spec := range s.file.Imports {
				target, _ := strconv.Unquote(spec.Path.Value)
				if ours, ok := strings.CutPrefix(target, modulePath+"/"); ok && ours != f.name {
					if importers[ours] == nil {
						importers[ours] = make(map[string]bool)
					}
					importers[ours][f.name] = true
				}
			}
		}
	}
	var complaints []string
	for _, f := range folders {
		small := f.isInternal() && !f.foreign && !f.isMain() && lines[f.name] < fewLines && len(importers[f.name]) == fewLinesImporter
		switch _, reason := reasons[f.name]; {
		case small && !reason:
			complaints = append(complaints, fmt.Sprintf("package %s has %d lines and one importer: make it a part of that one, or give a reason in sizes_test.go",
				f.name, lines[f.name]))
		case !small && reason:
			complaints = append(complaints, fmt.Sprintf("package %s needs no reason in sizes_test.go any more", f.name))
		}
	}
	return complaints
}

// Packages and exported names are documented, tests neither sleep nor skip, and no work is left to be done in a comment.
func TestHabits(t *testing.T) {
	complain(t, checkHabits(repository(t)))
}

// checkSizes returns a complaint for each file, function and package over its limit.
func checkSizes(folders []folder) []string {
	var complaints []string
	for _, f := range folders {
		total := 0
		for _, s := range f.files {
			if ast.IsGenerated(s.file) {
				continue
			}
			if s.lines > maxFileLines {
				complaints = append(complaints, fmt.Sprintf("%s has %d lines, at most %d are allowed: split it by what it does",
					s.name, s.lines, maxFileLines))
			}
			if !s.isTest() {
				total += s.lines
			}
			for _, d := range s.file.Decls {
				complaints = append(complaints, funcSizes(s, d)...)
			}
		}
		limit := maxPackageLines
		if larger, ok := largerPackages[f.name]; ok {
			limit = larger
		}
		if total > limit {
			complaints = append(complaints, fmt.Sprintf("package %s has %d lines without tests, at most %d are allowed: split it",
				f.name, total, limit))
		}
	}
	return complaints
}

// funcSizes checks one declaration, if it is a function.
func funcSizes(s source, d ast.Decl) []string {
	fn, ok := d.(*ast.FuncDecl)
	if !ok {
		return nil
	}
	var complaints []string
	limit := func(n, most int, what string) {
		if n > most {
			complaints = append(complaints, fmt.Sprintf("%s:%d: %s has %d %s, at most %d are allowed",
				s.name, s.line(fn.Pos()), fn.Name.Name, n, what, most))
		}
	}
	limit(s.line(fn.End())-s.line(fn.Type.Func)+1, maxFuncLines, "lines")
	limit(fn.Type.Params.NumFields(), maxParams, "parameters")
	limit(fn.Type.Results.NumFields(), maxResults, "results")
	return complaints
}

// checkHabits returns a complaint for each missing comment and each thing that is not done here.
func checkHabits(folders []folder) []string {
	var complaints []string
	for _, f := range folders {
		isCode := func(s source) bool { return !s.isTest() }
		isDocumented := func(s source) bool { return isCode(s) && s.file.Doc != nil }
		if slices.ContainsFunc(f.files, isCode) && !slices.ContainsFunc(f.files, isDocumented) {
			complaints = append(complaints, fmt.Sprintf("package %s has no package comment: say what it is for", f.name))
		}
		for _, s := range f.files {
			if ast.IsGenerated(s.file) {
				continue
			}
			complaints = append(complaints, unfinished(s)...)
			if s.isTest() {
				complaints = append(complaints, sleepsAndSkips(s)...)
			} else if !f.isMain() && !f.isInternal() {
				complaints = append(complaints, undocumented(s)...)
			}
		}
	}
	return complaints
}

// The words are put together here so that a search for them finds only what this test would refuse.
var unfinishedWork = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|X` + `XX)\b`)

// unfinished complains about comments that put work off.
func unfinished(s source) []string {
	var complaints []string
	for _, group := range s.file.Comments {
		for _, c := range group.List {
			if word := unfinishedWork.FindString(c.Text); word != "" {
				complaints = append(complaints, fmt.Sprintf("%s:%d: %s in a comment: do it, or name it in the closing note",
					s.name, s.line(c.Pos()), word))
			}
		}
	}
	return complaints
}

// sleepsAndSkips complains about tests that wait for time to pass or do not run.
func sleepsAndSkips(s source) []string {
	var complaints []string
	ast.Inspect(s.file, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		x, ok := sel.X.(*ast.Ident)
		if !ok {
			return true
		}
		switch at := s.line(sel.Pos()); {
		case x.Name == "time" && sel.Sel.Name == "Sleep":
			complaints = append(complaints, fmt.Sprintf("%s:%d: a test sleeps: wait for a channel, or use testing/synctest", s.name, at))
		case slices.Contains([]string{"t", "b", "f", "tb", "rt"}, x.Name) &&
			slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, sel.Sel.Name):
			complaints = append(complaints, fmt.Sprintf("%s:%d: a test is skipped: make it run everywhere, or delete it", s.name, at))
		}
		return true
	})
	return complaints
}

// undocumented complains about exported names without a comment. In a group of constants or variables the group's comment is
// enough, and so is one at the end of the line. Fields are left to the reviewer.
func undocumented(s source) []string {
	var complaints []string
	need := func(name *ast.Ident, docs ...*ast.CommentGroup) {
		documented := slices.ContainsFunc(docs, func(g *ast.CommentGroup) bool { return g != nil })
		if name.IsExported() && !documented {
			complaints = append(complaints, fmt.Sprintf("%s:%d: %s has no comment: say what it does, who may call it, who owns the bytes",
				s.name, s.line(name.Pos()), name.Name))
		}
	}
	for _, d := range s.file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if receiver := receiverOf(d); receiver == nil || receiver.IsExported() {
				need(d.Name, d.Doc)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					need(spec.Name, spec.Doc, spec.Comment, onlySpec(d))
				case *ast.ValueSpec:
					for _, name := range spec.Names {
						need(name, spec.Doc, spec.Comment, d.Doc)
					}
				}
			}
		}
	}
	return complaints
}

// onlySpec returns the comment of a declaration that declares one thing only.
func onlySpec(d *ast.GenDecl) *ast.CommentGroup {
	if d.Lparen == token.NoPos {
		return d.Doc
	}
	return nil
}

// receiverOf returns the name of the type whose method d is, nil for a function.
func receiverOf(d *ast.FuncDecl) *ast.Ident {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return nil
	}
	typ := d.Recv.List[0].Type
	for {
		switch t := typ.(type) {
		case *ast.StarExpr:
			typ = t.X
		case *ast.IndexExpr:
			typ = t.X
		case *ast.IndexListExpr:
			typ = t.X
		case *ast.Ident:
			return t
		default:
			return nil
		}
	}
}
