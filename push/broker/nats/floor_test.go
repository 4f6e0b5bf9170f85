package nats_test

import (
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/broker/nats"
)

// TestFloorWithoutRemovals: in a table from which no row was ever removed, every position is usable, however old it is and however often all
// rows were replaced since, also after a restart. The first removal ends that, also one by another program.
func TestFloorWithoutRemovals(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := push.History{Age: time.Second, Size: 100}
	b := open(t, &nats.Options{Dir: dir})
	openNamespace(t, b, "t", push.Table, h)
	follow(t, b, "t")
	begin := time.Now()
	testwait.True(t, "the age has passed", func() bool {
		publish(t, b, "t:1", "row", "x")
		return time.Since(begin) > 1500*time.Millisecond
	})
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	b = closing(t, open(t, &nats.Options{Dir: dir}))
	openNamespace(t, b, "t", push.Table, h)
	if rows, loaded := load(t, b, "t:1"); len(rows) != 1 || loaded.Floor != 0 {
		t.Errorf("after a restart there are %q from %d on, want one row and no floor", rows, loaded.Floor)
	}
	gone, err := b.Publish(t.Context(), "t:1", push.Publication{Key: "row", Op: push.Remove}, broker.PublishOptions{})
	if err != nil {
		t.Fatal(err)
	}
	testwait.True(t, "the removal is forgotten", func() bool {
		publish(t, b, "t:1", "other", "x")
		rows, loaded := load(t, b, "t:1")
		return len(rows) == 1 && loaded.Floor >= gone.Offset
	})
}
