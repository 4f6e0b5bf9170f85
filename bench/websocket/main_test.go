package main_test

import (
	"testing"

	"github.com/sluice-push/sluice/bench/internal/loadtest"
	websocket "github.com/sluice-push/sluice/bench/websocket"
)

func TestMain(m *testing.M) { loadtest.Main(m, websocket.Main) }
