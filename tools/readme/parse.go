package main

import (
	"fmt"
	"path/filepath"
	"strings"
)

// block is one fenced code block.
type block struct {
	line       int    // of the opening fence, from 1
	lang       string // first word of the info string
	background bool   // sh: leave it running
	until      string // sh background: text of the line that says it is ready
	file       string // write the text to this file
	check      bool   // yaml: the text is a configuration of a node
	notRun     bool   // the block has the attribute notrun
	text       string // with a line end after every line
}

// parse returns the fenced code blocks of a Markdown text in order. Blocks inside lists may be indented. An unclosed block and an unknown
// attribute are errors, which begin with the line.
func parse(markdown string) ([]block, error) {
	var blocks []block
	var open *block
	var fence, indent string
	for i, line := range strings.Split(strings.ReplaceAll(markdown, "\r\n", "\n"), "\n") {
		bare := strings.TrimLeft(line, " ")
		if open != nil {
			if isClosing(bare, fence) {
				blocks = append(blocks, *open)
				open = nil
				continue
			}
			open.text += trimIndent(line, indent) + "\n"
			continue
		}
		if fence = openingFence(bare); fence == "" {
			continue
		}
		indent = line[:len(line)-len(bare)]
		b, err := parseInfo(strings.TrimSpace(bare[len(fence):]))
		if err != nil {
			return nil, fmt.Errorf("%d: %w", i+1, err)
		}
		b.line = i + 1
		open = &b
	}
	if open != nil {
		return nil, fmt.Errorf("%d: the block is not closed", open.line)
	}
	return blocks, nil
}

// openingFence returns the backticks or tildes that open a block, and "" if the line opens none.
func openingFence(line string) string {
	for _, mark := range []string{"`", "~"} {
		rest := strings.TrimLeft(line, mark)
		n := len(line) - len(rest)
		if n >= 3 && (mark == "~" || !strings.Contains(rest, "`")) { // ```x``` is inline code
			return line[:n]
		}
	}
	return ""
}

func isClosing(line, fence string) bool {
	rest := strings.TrimLeft(line, fence[:1])
	return len(line)-len(rest) >= len(fence) && strings.TrimSpace(rest) == ""
}

// trimIndent removes the common prefix of indent and the line.
func trimIndent(line, indent string) string {
	for indent != "" && strings.HasPrefix(line, " ") {
		line, indent = line[1:], indent[1:]
	}
	return line
}

// otherNames are aliases of languages that are run. They are refused, because such a block would not run.
var otherNames = map[string]string{
	"bash": "sh", "shell": "sh", "zsh": "sh", "console": "text", "golang": "go", "javascript": "js", "mjs": "js", "yml": "yaml",
}

// parseInfo parses an info string: the language, then words, key=value and key="text with spaces".
func parseInfo(info string) (block, error) {
	lang, rest, _ := strings.Cut(info, " ")
	if use, ok := otherNames[lang]; ok {
		return block{}, fmt.Errorf("write %s as %s: blocks of %s would not be run", lang, use, lang)
	}
	b := block{lang: lang}
	for rest = strings.TrimLeft(rest, " "); rest != ""; rest = strings.TrimLeft(rest, " ") {
		end := strings.IndexAny(rest, " =")
		if end < 0 {
			end = len(rest)
		}
		key, value := rest[:end], ""
		rest = rest[end:]
		if after, ok := strings.CutPrefix(rest, `="`); ok {
			if value, rest, ok = strings.Cut(after, `"`); !ok {
				return block{}, fmt.Errorf("the value of %s is not closed", key)
			}
		} else if after, ok := strings.CutPrefix(rest, "="); ok {
			value, rest, _ = strings.Cut(after, " ")
		}
		if err := b.set(key, value); err != nil {
			return block{}, err
		}
	}
	if b.until != "" && !b.background {
		return block{}, fmt.Errorf("until needs background")
	}
	if !b.notRun && !b.check && b.file == "" && !isRun(lang) && lang != "text" && lang != "" {
		return block{}, fmt.Errorf("nothing runs a block of %q: say notrun, check for a configuration, or file=NAME if a later block uses it", lang)
	}
	return b, nil
}

// isRun reports whether blocks of a language run.
func isRun(lang string) bool { return lang == "sh" || lang == "go" || lang == "js" || lang == "html" }

// set sets an attribute of the block.
func (b *block) set(key, value string) error {
	switch {
	case key == "background" && value == "" && b.lang == "sh":
		b.background = true
	case key == "until" && value != "" && b.lang == "sh":
		b.until = value
	case key == "check" && value == "" && b.lang == "yaml":
		b.check = true
	case key == "notrun" && value == "":
		b.notRun = true
	case key == "file" && b.lang != "sh" && b.lang != "go":
		if !filepath.IsLocal(value) || strings.HasPrefix(filepath.ToSlash(filepath.Clean(value)), ".git/") {
			return fmt.Errorf("file=%s is not a file of the repository", value)
		}
		b.file = value
	default:
		return fmt.Errorf("attribute %q means nothing for a block of %q", key, b.lang)
	}
	return nil
}
