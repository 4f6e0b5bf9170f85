package main_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/sluice-push/sluice/examples/internal/proctest"
)

var program = proctest.New(".")

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		program.Remove()
		os.Exit(code)
	}))
}

// dashboard is what a Grafana dashboard says of its queries.
type dashboard struct {
	Panels []struct {
		Title   string
		Targets []struct{ Expr string }
	}
}

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	text, err := os.ReadFile("dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// What Prometheus has to scrape is what the README starts, and rates over 15 seconds have samples enough.
func TestPrometheusFile(t *testing.T) {
	config, err := os.ReadFile("prometheus.yml")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(readme), "-metrics 127.0.0.1:9103") || !strings.Contains(string(config), `["127.0.0.1:9103"]`) {
		t.Error("README.md and prometheus.yml are of different addresses")
	}
	if !strings.Contains(string(config), "scrape_interval: 5s") {
		t.Error("prometheus.yml does not scrape every five seconds")
	}
}
