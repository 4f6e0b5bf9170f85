package config_test

import (
	"strings"
	"testing"

	"github.com/sluice-push/sluice/push/config"
)

// Kubernetes sets variables for each Service of a namespace in each container. A Service called sluice must not keep a node from starting
// (kubernetes/kubernetes#35189).
func TestKubernetesServices(t *testing.T) {
	environ := strings.Fields(`
		SLUICE_SERVICE_HOST=10.0.0.11 SLUICE_SERVICE_PORT=8000 SLUICE_SERVICE_PORT_CLIENTS=8000 SLUICE_SERVICE_PORT_GRPC_WEB=8001
		SLUICE_PORT=tcp://10.0.0.11:8000 SLUICE_PORT_8000_TCP=tcp://10.0.0.11:8000 SLUICE_PORT_8000_TCP_PROTO=tcp
		SLUICE_PORT_8000_TCP_PORT=8000 SLUICE_PORT_8000_TCP_ADDR=10.0.0.11 SLUICE_PORT_9000_UDP=udp://10.0.0.11:9000
		SLUICE_PORT_9000_UDP_PROTO=udp SLUICE_PORT_9000_UDP_PORT=9000 SLUICE_PORT_9000_UDP_ADDR=10.0.0.11
		SLUICE_INTERNAL_SERVICE_HOST=10.0.0.12 SLUICE_INTERNAL_SERVICE_PORT=9000 SLUICE_INTERNAL_PORT=tcp://10.0.0.12:9000
		SLUICE_INTERNAL_PORT_9000_TCP=tcp://[fd00::c]:9000 SLUICE_INTERNAL_PORT_9000_TCP_ADDR=fd00::c
		SLUICE_HUB_1_SERVICE_HOST=10.0.0.13`)
	c, err := config.Load("", append(environ, "SLUICE_LISTEN=:8001"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.Listen != ":8001" {
		t.Errorf("listen is %q", c.Listen)
	}
}

// A variable that only resembles these is an unknown variable.
func TestNearKubernetesServices(t *testing.T) {
	for _, v := range []string{
		"SLUICE_PORT=8000", "SLUICE_INTERNAL_PORT=9000", "SLUICE_PORT_8000=8000", "SLUICE_SERVICE=x", "SLUICE_SERVICE_PORT=x",
		"SLUICE_LISTEN_PORT=8000", "SLUICE_HOST=a",
	} {
		if _, err := config.Load("", []string{v}, nil); err == nil || !strings.Contains(err.Error(), "unknown variable") {
			t.Errorf("%s: %v", v, err)
		}
	}
}

func TestByteOrderMark(t *testing.T) {
	c, err := config.Parse("a.yaml", []byte("\ufefflisten: \":8001\"\n"), nil, nil)
	if err != nil || c.Listen != ":8001" {
		t.Errorf("%v, %v", c, err)
	}
}
