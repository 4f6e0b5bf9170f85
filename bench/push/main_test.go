package main_test

import (
	"testing"

	"github.com/sluice-push/sluice/bench/internal/loadtest"
	push "github.com/sluice-push/sluice/bench/push"
)

func TestMain(m *testing.M) { loadtest.Main(m, push.Main) }
