//go:build !linux

package transport

import (
	"errors"
	"net"
	"syscall"
)

// option is nothing here: options are set through package net.
type option struct{}

// each returns nothing: there are no descriptors.
func (*Options) each(bool) []option { return nil }

// setListener does nothing: what connections inherit differs between systems, so they get their options when they are accepted.
func (*Options) setListener(syscall.Conn) error { return nil }

// setNotSentLowat is for Linux only.
func setNotSentLowat(*net.TCPConn, int) error { return errors.ErrUnsupported }
