package config

import (
	"bytes"
	_ "embed"
	"encoding"
	"fmt"
	"io"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

//go:embed default.yaml
var defaultText string

// WriteDefault writes the default configuration as a YAML file with comments: every key with its meaning and its default.
func WriteDefault(w io.Writer) error {
	_, err := io.WriteString(w, defaultText)
	return err
}

// Load returns the configuration of a node. It begins with the defaults and applies the file at path (none if path is empty), then the
// environment variables (as [os.Environ] returns them), then overrides. These contain the values of command line flags by the path of their key,
// such as "limits.sessions". Lists and maps in variables and overrides are YAML text; other values are used literally. An empty variable counts as not
// set, an empty override does not. Variables that Kubernetes sets for a Service named sluice are ignored.
//
// The error is an [*Error] with all problems, or the error of opening and reading the file.
func Load(path string, environ []string, overrides map[string]string) (*Config, error) {
	if path == "" {
		return Parse("", nil, environ, overrides)
	}
	text, err := readText(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, text, environ, overrides)
}

// readText returns the text of a file, at most a byte more than is allowed.
func readText(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	defer func() { _ = f.Close() }() // nothing was written
	text, err := io.ReadAll(io.LimitReader(f, maxText+1))
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	return text, nil
}

// Parse is [Load] for the text of a file. name is the name of the file in errors.
func Parse(name string, text []byte, environ []string, overrides map[string]string) (*Config, error) {
	c, r := Default(), newReport()
	v := reflect.ValueOf(c).Elem()
	(&decoder{r, origin{kind: fromFile, name: name}}).text("", bytes.TrimPrefix(text, byteOrderMark), v)
	applyEnviron(r, v, environ)
	applyOverrides(r, v, overrides)
	c.check(r)
	if err := r.err(); err != nil {
		return nil, err
	}
	return c, nil
}

// byteOrderMark is a prefix that some editors write before UTF-8 text.
var byteOrderMark = []byte("\ufeff")

// envPrefix is the beginning of the names of all variables.
const envPrefix = "SLUICE_"

// otherVariables are variables of commands, not of the configuration.
var otherVariables = [...]string{"SLUICE_API_KEY", "SLUICE_URL"}

// serviceVariable matches the variables that Kubernetes sets in each container for a Service whose name begins with "sluice". The form without
// a port number is SLUICE_PORT=tcp://10.0.0.1:8000.
var serviceVariable = regexp.MustCompile(`^SLUICE_(?:[A-Z0-9_]+_)?(?:` +
	`SERVICE_HOST=.*|SERVICE_PORT(?:_[A-Z0-9_]+)?=\d*|PORT=(?:tcp|udp|sctp)://.*|` +
	`PORT_\d+_(?:TCP|UDP|SCTP)(?:=(?:tcp|udp|sctp)://.*|_(?:PROTO|PORT|ADDR)=.*))$`)

// envName returns the variable of a key.
func envName(key string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

// leaf is a key that a variable or a flag can set: a single value, a list or a map.
type leaf struct {
	key   string
	value reflect.Value
}

// leavesOf appends the leaves of the struct v, whose own key is prefix, in the order of its fields.
func leavesOf(leaves []leaf, prefix string, v reflect.Value) []leaf {
	for i := range v.NumField() {
		key, f := join(prefix, v.Type().Field(i).Tag.Get("yaml")), v.Field(i)
		_, isText := f.Addr().Interface().(encoding.TextUnmarshaler)
		if f.Kind() == reflect.Struct && !isText {
			leaves = leavesOf(leaves, key, f)
			continue
		}
		leaves = append(leaves, leaf{key, f})
	}
	return leaves
}

// set sets the value of the leaf from a variable or flag.
func (l leaf) set(r *report, from origin, text string) {
	if kind := l.value.Kind(); kind == reflect.Slice || kind == reflect.Map {
		(&decoder{r, from}).text(l.key, []byte(text), l.value)
		return
	}
	r.set(l.key, from)
	if err := setScalar(l.value, text); err != nil {
		r.add(l.key, from, "%s", err)
	}
}

func applyEnviron(r *report, v reflect.Value, environ []string) {
	byName, names := make(map[string]leaf), []string(nil)
	for _, l := range leavesOf(nil, "", v) {
		byName[envName(l.key)] = l
		names = append(names, strings.TrimPrefix(envName(l.key), envPrefix))
	}
	for _, entry := range environ {
		name, text, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, envPrefix) || slices.Contains(otherVariables[:], name) {
			continue
		}
		l, ok := byName[name]
		switch {
		case !ok && serviceVariable.MatchString(entry):
		case !ok:
			p := r.add(clean(name), origin{kind: fromEnv}, "unknown variable")
			if near := nearest(name[len(envPrefix):], names); near != "" {
				p.Nearest = envPrefix + near
			}
		case text != "":
			l.set(r, origin{kind: fromEnv, name: name}, text)
		}
	}
}

func applyOverrides(r *report, v reflect.Value, overrides map[string]string) {
	left := len(overrides)
	for _, l := range leavesOf(nil, "", v) {
		if text, ok := overrides[l.key]; ok {
			l.set(r, origin{kind: fromFlag, name: "flag " + l.key}, text)
			left--
		}
	}
	if left == 0 {
		return
	}
	var names []string
	for _, l := range leavesOf(nil, "", v) {
		names = append(names, l.key)
	}
	for key := range overrides {
		if !slices.Contains(names, key) {
			r.add(clean(key), origin{kind: fromFlag}, "unknown key in flags").Nearest = nearest(key, names)
		}
	}
}
