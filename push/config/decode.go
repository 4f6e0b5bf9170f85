package config

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// The decoder walks the YAML tree and the Go type side by side. So it can report the place of every problem and continue after it. The library's
// own decoder stops at the first error.

const (
	// maxText is the largest YAML text, in bytes.
	maxText = 256 << 10
	// maxNesting is how deep brackets may be nested: the time of the parser grows with the square of that.
	maxNesting = 64
	// maxInt is the largest plain number: nine digits, which fit an int on all platforms.
	maxInt = 999_999_999
)

// decoder decodes YAML text from one source into a configuration.
type decoder struct {
	report *report
	from   origin
}

// setDefaulter is a type of list entry whose initial value is not its zero value.
type setDefaulter interface{ setDefaults() }

// text decodes YAML text into v, which is the value of key.
func (d *decoder) text(key string, text []byte, v reflect.Value) {
	start := origin{d.from.kind, d.from.name, 1, 1}
	if len(text) > maxText {
		d.report.add(key, d.from, "the text has %d bytes, at most %d are allowed", len(text), maxText)
		return
	}
	if nesting(text) > maxNesting {
		d.report.add(key, d.from, "brackets are nested more than %d deep", maxNesting)
		return
	}
	file, err := parser.ParseBytes(text, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		d.syntax(key, start, err)
		return
	}
	docs := file.Docs
	if len(docs) == 0 || docs[0].Body == nil {
		return
	}
	if len(docs) > 1 {
		at := start
		if docs[1].Start != nil {
			at = d.at(docs[1].Start)
		}
		d.report.add(key, at, "more than one YAML document")
		return
	}
	d.value(key, docs[0].Body, v)
}

// nesting returns the largest number of brackets that are open at a time. It counts those in strings too, which is enough for a guard.
func nesting(text []byte) int {
	depth, most := 0, 0
	for _, c := range text {
		switch c {
		case '[', '{':
			depth++
			most = max(most, depth)
		case ']', '}':
			depth = max(depth-1, 0)
		}
	}
	return most
}

// syntax reports an error of the YAML parser.
func (d *decoder) syntax(key string, start origin, err error) {
	var e yaml.Error
	if !errors.As(err, &e) || e.GetToken() == nil {
		d.report.add(key, start, "invalid YAML: %s", err)
		return
	}
	d.report.add(key, d.at(e.GetToken()), "invalid YAML: %s", e.GetMessage())
}

func (d *decoder) at(t *token.Token) origin {
	return origin{d.from.kind, d.from.name, t.Position.Line, t.Position.Column}
}

// place returns the place where a value begins for a reader. The token of a mapping itself is its first colon.
func (d *decoder) place(n ast.Node) origin {
	switch n := n.(type) {
	case *ast.MappingNode:
		if !n.IsFlowStyle && len(n.Values) > 0 {
			return d.at(n.Values[0].Key.GetToken())
		}
	case *ast.MappingValueNode:
		return d.at(n.Key.GetToken())
	}
	return d.at(n.GetToken())
}

// value decodes n into v, the value of key.
func (d *decoder) value(key string, n ast.Node, v reflect.Value) {
	switch n.(type) {
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode, *ast.DirectiveNode:
		d.report.add(key, d.place(n), "anchors, aliases, tags and directives are not allowed")
		return
	}
	d.report.set(key, d.place(n))
	_, isText := v.Addr().Interface().(encoding.TextUnmarshaler)
	switch {
	case isText:
		d.scalar(key, n, v)
	case v.Kind() == reflect.Struct:
		d.mapping(key, n, v)
	case v.Kind() == reflect.Slice:
		d.sequence(key, n, v)
	case v.Kind() == reflect.Map:
		d.names(key, n, v)
	default:
		d.scalar(key, n, v)
	}
}

// entries returns the entries of a mapping; none if there is no value, as when every line below the key is a comment.
func (d *decoder) entries(key string, n ast.Node) []*ast.MappingValueNode {
	switch n := n.(type) {
	case *ast.MappingNode:
		return n.Values
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}
	case *ast.NullNode:
	default:
		d.wrongType(key, n, "keys and values")
	}
	return nil
}

// names decodes n into the map v, whose keys are names that the user chooses. It replaces the content, unless there is no value.
func (d *decoder) names(key string, n ast.Node, v reflect.Value) {
	entries := d.entries(key, n)
	if entries == nil && n.Type() != ast.MappingType {
		return
	}
	m := reflect.MakeMap(v.Type())
	for _, e := range entries {
		name, at := reflect.ValueOf(e.Key.GetToken().Value), d.at(e.Key.GetToken())
		path := join(key, name.String())
		if m.MapIndex(name).IsValid() {
			d.report.add(path, at, "duplicate name")
			continue
		}
		value := reflect.New(v.Type().Elem()).Elem()
		d.value(path, e.Value, value)
		m.SetMapIndex(name, value)
	}
	v.Set(m)
}

// mapping decodes n into the struct v. If there is no value, nothing changes.
func (d *decoder) mapping(key string, n ast.Node, v reflect.Value) {
	entries := d.entries(key, n)
	fields := fieldsOf(v.Type())
	seen := make(map[string]origin)
	for _, e := range entries {
		name, ok := e.Key.(*ast.StringNode)
		at := d.at(e.Key.GetToken())
		if !ok {
			d.report.add(join(key, e.Key.GetToken().Value), at, "unknown key")
			continue
		}
		path := join(key, name.Value)
		i, known := fields.index[name.Value]
		switch first, again := seen[name.Value]; {
		case !known:
			d.report.add(path, at, "unknown key").Nearest = nearest(name.Value, fields.names)
		case again:
			d.report.add(path, at, "duplicate key, first in line %d", first.line)
		default:
			seen[name.Value] = at
			d.value(path, e.Value, v.Field(i))
		}
	}
}

// sequence decodes n into the slice v, replacing its content. If there is no value, nothing changes.
func (d *decoder) sequence(key string, n ast.Node, v reflect.Value) {
	if n.Type() == ast.NullType {
		return
	}
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		d.wrongType(key, n, "a list")
		return
	}
	list := reflect.MakeSlice(v.Type(), len(seq.Values), len(seq.Values))
	for i, e := range seq.Values {
		entry := list.Index(i)
		if s, ok := entry.Addr().Interface().(setDefaulter); ok {
			s.setDefaults()
		}
		d.value(fmt.Sprintf("%s[%d]", key, i), e, entry)
	}
	v.Set(list)
}

// scalar decodes a single value. Each Go type accepts the YAML types that cannot be misread; sizes also accept plain numbers.
func (d *decoder) scalar(key string, n ast.Node, v reflect.Value) {
	want, accepted := "text", false
	text := n.GetToken().Value
	switch n := n.(type) {
	case *ast.StringNode:
		accepted = v.Kind() != reflect.Bool && !isPlainInt(v)
		text = n.Value
	case *ast.LiteralNode:
		accepted = v.Kind() == reflect.String
		text = n.Value.Value
	case *ast.IntegerNode:
		accepted = v.CanInt() || v.Type() == reflect.TypeFor[Ratio]()
	case *ast.FloatNode:
		accepted = v.Type() == reflect.TypeFor[Ratio]()
	case *ast.BoolNode:
		accepted = v.Kind() == reflect.Bool || v.Type() == reflect.TypeFor[Durability]()
	}
	switch {
	case v.Kind() == reflect.Bool:
		want = "true or false"
	case isPlainInt(v):
		want = "a whole number"
	case v.Type() == reflect.TypeFor[Ratio]():
		want = "a number such as 1.25"
	case v.Type() == reflect.TypeFor[Bytes]():
		want = "a size such as 64KiB"
	case v.Type() == reflect.TypeFor[Duration]():
		want = "a duration such as 10s"
	}
	if !accepted {
		d.wrongType(key, n, want)
		return
	}
	if err := setScalar(v, text); err != nil {
		d.report.add(key, d.place(n), "%s", err)
	}
}

// isPlainInt reports whether v is a number without units.
func isPlainInt(v reflect.Value) bool { return v.Kind() == reflect.Int }

// setScalar sets v from its text form. Variables and flags are set by it directly, because their text is not YAML.
func setScalar(v reflect.Value, text string) error {
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return u.UnmarshalText([]byte(text))
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		if text != "true" && text != "false" {
			return fmt.Errorf("%s is not a boolean: use true or false", quote(text))
		}
		v.SetBool(text == "true")
	case reflect.Int:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n > maxInt || n < -maxInt {
			return fmt.Errorf("%s is not a whole number of at most %d digits", quote(text), 9)
		}
		v.SetInt(n)
	default:
		panic("config: no text form for " + v.Type().String())
	}
	return nil
}

// wrongType reports that n does not have the wanted type.
func (d *decoder) wrongType(key string, n ast.Node, want string) {
	d.report.add(key, d.place(n), "wrong type: expected %s, not %s", want, kindOf(n))
}

// kindOf returns the name of the type of n for messages.
func kindOf(n ast.Node) string {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "keys and values"
	case *ast.SequenceNode:
		return "a list"
	case *ast.NullNode:
		return "an empty value"
	case *ast.BoolNode:
		return "true or false"
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return "a number"
	case *ast.StringNode, *ast.LiteralNode:
		return "text"
	}
	return "something else"
}

// fields are the keys of a struct, in order, and the index of their field.
type fields struct {
	names []string
	index map[string]int
}

func fieldsOf(t reflect.Type) fields {
	f := fields{index: make(map[string]int)}
	for i := range t.NumField() {
		name := t.Field(i).Tag.Get("yaml")
		f.names = append(f.names, name)
		f.index[name] = i
	}
	return f
}

// join returns the path of a key below another.
func join(key, name string) string {
	if key == "" {
		return clean(name)
	}
	return key + "." + clean(name)
}

// clean escapes the name of a key in the input, so that it fits on one line of an error message.
func clean(name string) string {
	return strings.Trim(quote(name), `"`)
}
