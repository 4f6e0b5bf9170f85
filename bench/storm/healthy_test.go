package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// healthy serves a page for all paths until the test ends, and returns its address.
func healthy(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}
