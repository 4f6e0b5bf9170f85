// Package guide holds nothing but tests: they keep docs/library.md and docs/websocket.md true. Each fragment of Go in those pages is
// taken word for word from an Example here, or from one of the library's packages, which is run and whose output is compared; each
// program of its own is built.
package guide
