// Package guide holds only tests. They keep docs/library.md and docs/websocket.md correct. Each fragment of Go in those pages is copied from
// an Example here or in one of the library's packages, and the output of the Example is tested. Each complete program in the pages is built.
package guide
