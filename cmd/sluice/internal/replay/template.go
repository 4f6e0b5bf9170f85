package replay

import (
	"fmt"
	"strings"
)

// template makes names from symbols and files. Texts and placeholders alternate: text[0], placeholders[0], text[1] …
type template struct {
	text         []string
	placeholders []placeholder
	needsSymbol  bool
}

type placeholder uint8

const (
	placeholderSymbol placeholder = iota
	placeholderFile
)

func parseTemplate(in string) (template, error) {
	var t template
	for rest := in; ; {
		i := strings.IndexAny(rest, "{}")
		if i < 0 {
			t.text = append(t.text, rest)
			return t, nil
		}
		t.text = append(t.text, rest[:i])
		name, after, closed := strings.Cut(rest[i+1:], "}")
		if rest[i] == '}' || !closed {
			return t, fmt.Errorf("%q has an unmatched brace: write {symbol} or {file}", in)
		}
		switch name {
		case "symbol":
			t.placeholders = append(t.placeholders, placeholderSymbol)
			t.needsSymbol = true
		case "file":
			t.placeholders = append(t.placeholders, placeholderFile)
		default:
			return t, fmt.Errorf("%q has an unknown placeholder {%s}: use {symbol} or {file}", in, name)
		}
		rest = after
	}
}

func (t template) expand(symbol, file string) string {
	var b strings.Builder
	for i, text := range t.text {
		b.WriteString(text)
		if i == len(t.placeholders) {
			break
		}
		switch t.placeholders[i] {
		case placeholderSymbol:
			b.WriteString(symbol)
		case placeholderFile:
			b.WriteString(file)
		}
	}
	return b.String()
}
