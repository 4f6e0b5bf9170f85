package hostclock_test

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest/hostclock"
)

const asOther = "SLUICE_HOSTCLOCK_TEST"

func TestMain(m *testing.M) {
	if os.Getenv(asOther) != "" {
		_, _ = os.Stdout.WriteString(strconv.FormatInt(hostclock.Now(), 10))
		return
	}
	os.Exit(m.Run())
}

// A reading of another process lies between two readings of this one.
func TestProcessesShareIt(t *testing.T) {
	name, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(name)
	cmd.Env = append(os.Environ(), asOther+"=1")
	before := hostclock.Now()
	out, err := cmd.Output()
	after := hostclock.Now()
	if err != nil {
		t.Fatal(err)
	}
	there, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
	if err != nil || there < before || there > after {
		t.Errorf("%d here, %d there, %d here, %v", before, there, after, err)
	}
}
