package wsdial_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// The environment is read once in the life of a process.
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
