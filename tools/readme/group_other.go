//go:build !unix

package main

import "os/exec"

// Without process groups only the command itself can be ended.

func ownGroup(*exec.Cmd) {}

func terminateGroup(cmd *exec.Cmd) error { return cmd.Process.Kill() }

func killGroup(cmd *exec.Cmd) { _ = cmd.Process.Kill() }
