//go:build !unix

package transport_test

const starvingChild = "SLUICE_TEST_STARVE"

// starve does nothing on systems where a process cannot run out of descriptors.
func starve() {}
