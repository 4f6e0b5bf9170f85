// Package interop compares package rpc/frame with other programs that read and write the same frames: Apache's Thrift library for Go, and
// cloudwego/gopkg, on which Kitex is built. It is a module of its own, so that the library depends on neither. It holds tests only.
package interop
