package main_test

import (
	"fmt"
	"testing"

	"github.com/sluice-push/sluice/internal/testwait"
)

// TestFullTable: a full table has room again after rows were removed or replaced by shorter ones, as documented.
func TestFullTable(t *testing.T) {
	node := startNodeWith(t, fmt.Sprintf(roomConfig, "4MiB"))
	rows, _ := node.fill()
	for key := range rows {
		if err := node.try("publish", fmt.Sprintf(`{"channel":"rows:all","key":%q,"removed":true}`, key)); err != nil {
			t.Fatalf("a row cannot be removed: %v", err)
		}
	}
	testwait.True(t, "there is room for a row", func() bool { return node.row("new") == nil })
}
