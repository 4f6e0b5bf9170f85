//go:build !unix

package transport_test

const starvingChild = "SLUICE_TEST_STARVE"

// starve is nothing where descriptors cannot be used up.
func starve() {}
