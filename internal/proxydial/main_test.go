package proxydial_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// net/http reads the environment once in a process, so TestMain sets it.
func TestMain(m *testing.M) {
	for name, value := range map[string]string{
		"HTTP_PROXY": "http://for-ws.test", "HTTPS_PROXY": "http://for-wss.test", "NO_PROXY": "direct.test",
	} {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}
