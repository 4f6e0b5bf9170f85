// Package kitex has tests of package rpc against clients and servers of Kitex. They have a package of their own because Kitex keeps goroutines, and has
// data races.
package kitex
