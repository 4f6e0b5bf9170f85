package main

import (
	"bytes"
	"strings"
)

// RunCommand runs a command line with the given standard input and variables.
func RunCommand(stdin string, variables []string, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	env := &environment{stdin: strings.NewReader(stdin), stdout: &out, stderr: &errs, variables: variables}
	code = run(args, env)
	return code, out.String(), errs.String()
}

// JSONData returns data of other programs as clients get it.
func JSONData(data []byte) ([]byte, error) { return jsonData(data) }
