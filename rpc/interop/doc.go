// Package interop compares packages rpc and rpc/frame with other programs that read and write the same frames: Apache's Thrift library for Go, for
// Python and for Node, and cloudwego/gopkg, on which Kitex is built. It is a module of its own, so that the library depends on none of them. It holds
// tests only. The programs in Python and Node are in testdata, with code that Thrift's compiler generated from testdata/echo.thrift (that in Go through gofmt).
package interop
