package main

// Clean is clean.
func Clean(line []byte) string { return clean(line) }
