package config_test

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/push/config"
)

var update = flag.Bool("update", false, "write the expected error messages of testdata/errors anew")

// Each file of testdata/errors is a wrong configuration with the error message that it must produce beside it.
func TestErrorMessages(t *testing.T) {
	files, err := filepath.Glob("testdata/errors/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no files", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			_, err = config.Parse("config.yaml", text, nil, nil)
			if err == nil {
				t.Fatal("a wrong configuration was accepted")
			}
			golden := strings.TrimSuffix(file, ".yaml") + ".txt"
			got := err.Error() + "\n"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			if strings.Contains(got, "hunter2") {
				t.Error("the message repeats a secret")
			}
		})
	}
}

func TestErrorsOfVariablesAndFlags(t *testing.T) {
	tests := []struct {
		name  string
		env   []string
		flags map[string]string
		want  string
	}{
		{
			name: "unknown variable", env: []string{"SLUICE_LIMITS_MESAGE_BYTES=1"},
			want: "config: SLUICE_LIMITS_MESAGE_BYTES: unknown variable, did you mean SLUICE_LIMITS_MESSAGE_BYTES?",
		},
		{name: "nothing near", env: []string{"SLUICE_X=1"}, want: "config: SLUICE_X: unknown variable"},
		{name: "whole group", env: []string{"SLUICE_LIMITS={}"}, want: "config: SLUICE_LIMITS: unknown variable"},
		{
			name: "bad value", env: []string{"SLUICE_LINGER=soon"},
			want: `config: linger: "soon" is not a duration: use a number and a unit, such as 250ms, 10s, 5m or 1h30m (SLUICE_LINGER)`,
		},
		{
			name: "bad bool", env: []string{"SLUICE_AUTH_ANONYMOUS=yes"},
			want: `config: auth.anonymous: "yes" is not a boolean: use true or false (SLUICE_AUTH_ANONYMOUS)`,
		},
		{
			name: "out of range", env: []string{"SLUICE_LIMITS_SESSIONS=-1"},
			want: "config: limits.sessions: -1 is out of range: use 0 to 999999999 (SLUICE_LIMITS_SESSIONS)",
		},
		{
			name: "list", env: []string{"SLUICE_NAMESPACES=[{nme: a}]"},
			want: "config: namespaces[0].nme: unknown key, did you mean name? (SLUICE_NAMESPACES:1:3)",
		},
		{
			name: "not a list", env: []string{"SLUICE_NAMESPACES=a"},
			want: "config: namespaces: wrong type: expected a list, not text (SLUICE_NAMESPACES:1:1)",
		},
		{
			name: "flag", flags: map[string]string{"listen": "8000"},
			want: `config: listen: "8000" is not an address: use host:port or :port (flag listen)`,
		},
		{
			name: "unknown flag", flags: map[string]string{"lisen": ":1"},
			want: "config: lisen: unknown key in flags, did you mean listen?",
		},
		{
			name: "several", env: []string{"SLUICE_ROLE=hubs", "SLUICE_LISTEN=x"}, flags: map[string]string{"linger": "x"},
			want: "config: 3 problems:\n" +
				"  listen: \"x\" is not an address: use host:port or :port (SLUICE_LISTEN)\n" +
				"  role: unknown role \"hubs\": use all, hub or gateway (SLUICE_ROLE)\n" +
				"  linger: \"x\" is not a duration: use a number and a unit, such as 250ms, 10s, 5m or 1h30m (flag linger)",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := config.Parse("", nil, tt.env, tt.flags)
			if err == nil || err.Error() != tt.want {
				t.Errorf("error = %v\nwant    %s", err, tt.want)
			}
		})
	}
}

// If an environment variable replaces a value of the file, only the new value is checked, and its problems name the variable.
func TestOriginFollowsTheValue(t *testing.T) {
	file := "namespaces:\n  - name: a\n    durable: true\n"
	env := []string{"SLUICE_NAMESPACES=[{name: b}, {name: b}]"}
	_, err := config.Parse("config.yaml", []byte(file), env, nil)
	var e *config.Error
	if !errors.As(err, &e) {
		t.Fatalf("error = %v, want a *config.Error", err)
	}
	want := []config.Problem{{
		Key: "namespaces[1].name", Message: `duplicate namespace "b"`, Source: "SLUICE_NAMESPACES", Line: 1, Column: 20,
	}}
	if !reflect.DeepEqual(e.Problems, want) {
		t.Errorf("problems = %+v, want %+v", e.Problems, want)
	}
}

func TestValidateByCode(t *testing.T) {
	c := config.Default()
	c.Listen = ""
	c.Namespaces[0].Mode = 9
	c.Namespaces[0].Allow.Publish = []config.Caller{"root"}
	want := "config: 3 problems:\n" +
		"  listen: \"\" is not an address: use host:port or :port\n" +
		"  namespaces[0].mode: unknown mode: use stream, value or table\n" +
		"  namespaces[0].allow.publish[0]: unknown name \"root\""
	if err := c.Validate(); err == nil || err.Error() != want {
		t.Errorf("error = %v\nwant    %s", err, want)
	}
}

func TestTooMuchText(t *testing.T) {
	for name, text := range map[string]string{
		"long": "#" + strings.Repeat("x", 256<<10), "deep": strings.Repeat("[", 65),
	} {
		if _, err := config.Parse("f", []byte(text), nil, nil); err == nil {
			t.Errorf("%s text was accepted", name)
		}
	}
}

func TestNearest(t *testing.T) {
	names := []string{"listen", "internal", "limits", "linger", "namespaces"}
	for misspelt, want := range map[string]string{
		"namspaces": "namespaces", "Listen": "listen", "lsiten": "listen", "limit": "limits", "x": "", "": "", "colour": "",
		strings.Repeat("listen", 100): "",
	} {
		if got := config.Nearest(misspelt, names); got != want {
			t.Errorf("nearest to %.20q is %q, want %q", misspelt, got, want)
		}
	}
}
