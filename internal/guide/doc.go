// Package guide holds nothing but tests: they keep docs/library.md true. Each fragment of Go in that page is taken word for word from
// an Example here, or from one of the library's packages, which is run and whose output is compared; each program of its own
// is built.
package guide
