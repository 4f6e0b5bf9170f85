package main_test

import (
	"testing"

	"github.com/sluice-push/sluice/bench/internal/loadtest"
	library "github.com/sluice-push/sluice/bench/library"
)

func TestMain(m *testing.M) { loadtest.Main(m, library.Main) }
