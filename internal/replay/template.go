package replay

import (
	"fmt"
	"strings"
)

// template makes names of symbols and files. Text and placeholders take turns: text[0], slots[0], text[1] …
type template struct {
	text        []string
	slots       []slot
	needsSymbol bool
}

type slot uint8

const (
	slotSymbol slot = iota
	slotFile
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
			return t, fmt.Errorf("%q has a brace without its partner", in)
		}
		switch name {
		case "symbol":
			t.slots = append(t.slots, slotSymbol)
			t.needsSymbol = true
		case "file":
			t.slots = append(t.slots, slotFile)
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
		if i == len(t.slots) {
			break
		}
		switch t.slots[i] {
		case slotSymbol:
			b.WriteString(symbol)
		case slotFile:
			b.WriteString(file)
		}
	}
	return b.String()
}
