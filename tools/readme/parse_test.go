package main_test

import (
	"reflect"
	"strings"
	"testing"

	readme "github.com/sluice-push/sluice/tools/readme"
)

func TestParse(t *testing.T) {
	tests := []struct {
		name, text string
		want       []readme.Block
	}{
		{"nothing", "text\n", nil},
		{"one", "a\n```sh\nls\n```\nb\n", []readme.Block{{Line: 2, Lang: "sh", Text: "ls\n"}}},
		{"two", "```\na\n```\n```json notrun\n{}\n```", []readme.Block{{Line: 1, Text: "a\n"}, {Line: 4, Lang: "json", Text: "{}\n"}}},
		{"empty", "```sh\n```\n", []readme.Block{{Line: 1, Lang: "sh"}}},
		{"line ends of Windows", "```sh\r\nls\r\n```\r\n", []readme.Block{{Line: 1, Lang: "sh", Text: "ls\n"}}},
		{"in a list", "1. do\n   ```sh\n   a\n     b\n\n c\n   ```\n", []readme.Block{{Line: 2, Lang: "sh", Text: "a\n  b\n\nc\n"}}},
		{"longer fence", "````text\n```sh\nls\n```\n````\n", []readme.Block{{Line: 1, Lang: "text", Text: "```sh\nls\n```\n"}}},
		{"tildes", "~~~ sh\n```\n~~~~\n", []readme.Block{{Line: 1, Lang: "sh", Text: "```\n"}}},
		{"span of code", "```ls``` is a command\n", nil},
		{"two marks are no fence", "``\nls\n``\n", nil},
		{
			"background", "```sh background until=\"open http\"\nserve\n```\n",
			[]readme.Block{{Line: 1, Lang: "sh", Background: true, Until: "open http", Text: "serve\n"}},
		},
		{"bare value", "```sh until=ready  background\n```\n", []readme.Block{{Line: 1, Lang: "sh", Background: true, Until: "ready"}}},
		{
			"file", "```yaml file=deploy/a.yaml\na: 1\n```\n",
			[]readme.Block{{Line: 1, Lang: "yaml", File: "deploy/a.yaml", Text: "a: 1\n"}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := readme.Parse(tt.text)
			if err != nil || !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %+v, %v, want %+v", got, err, tt.want)
			}
		})
	}
}

func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		"\n```sh\nls\n":                        "2: the block is not closed",
		"```sh foreground\n```\n":              `1: attribute "foreground" means nothing for a block of "sh"`,
		"```sh background=yes\n```\n":          `attribute "background" means nothing`,
		"```go background\n```\n":              `attribute "background" means nothing for a block of "go"`,
		"```sh until=x\n```\n":                 "until needs background",
		"```sh background until=\"x\n```\n":    "the value of until is not closed",
		"```sh file=x\n```\n":                  `attribute "file" means nothing for a block of "sh"`,
		"```yaml file=/etc/x\n```\n":           "is not a file of the repository",
		"```yaml file=a/../../x\n```\n":        "is not a file of the repository",
		"```yaml file=.git/hooks/x\n```\n":     "is not a file of the repository",
		"```yaml file=\n```\n":                 "is not a file of the repository",
		"a\n```bash\nls\n```\n":                "2: write bash as sh",
		"```javascript\n```\n":                 "write javascript as js",
		"```json\n{}\n```\n":                   `1: nothing runs a block of "json"`,
		"```sh check\n```\n":                   `attribute "check" means nothing for a block of "sh"`,
		"```yaml notrun=no\n```\n":             `attribute "notrun" means nothing`,
		"```sh\nls\n```\n```golang\n```\n":     "4: write golang as go",
		"```sh background background=\n```x\n": "is not closed",
	} {
		if _, err := readme.Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error = %v, want %q", text, err, want)
		}
	}
}

// FuzzParse: no text makes the parser panic, and the position of every block is right.
func FuzzParse(f *testing.F) {
	f.Add("a\n```sh background until=\"x\"\nls\n```\n")
	f.Add("  ~~~yaml file=a.yaml\n  b\n~~~~\n")
	f.Add("````\n```\n````")
	f.Fuzz(func(t *testing.T, text string) {
		blocks, err := readme.Parse(text)
		if err != nil {
			return
		}
		lines := strings.Split(text, "\n")
		last := 0
		for _, b := range blocks {
			if b.Line <= last || b.Line > len(lines) || !strings.Contains(lines[b.Line-1], b.Lang) {
				t.Fatalf("block %+v is not in line %d", b, b.Line)
			}
			last = b.Line + strings.Count(b.Text, "\n")
		}
	})
}

func TestOutput(t *testing.T) {
	tests := []struct {
		name, until string
		chunks      []string
		want        bool
	}{
		{"in one", "open http", []string{"a\nopen http://x\n"}, true},
		{"in pieces", "open http", []string{"a\nop", "en", " http", "://x", "\n"}, true},
		{"line not ended", "open http", []string{"open http://x"}, false},
		{"over two lines", "open http", []string{"open\n", " http\n"}, false},
		{"after a long line", "x", []string{strings.Repeat("-", 100<<10), "\n", "x\n"}, true},
		{"nothing to find", "", []string{"\n"}, false},
		{"twice", "x", []string{"x\nx\n", "x\n"}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			found, kept := readme.WriteOutput(tt.until, tt.chunks...)
			if all := strings.Join(tt.chunks, ""); found != tt.want || len(kept) > 32<<10 || !strings.HasSuffix(all, kept) {
				t.Errorf("found = %t, want %t; kept %d bytes", found, tt.want, len(kept))
			}
		})
	}
}
