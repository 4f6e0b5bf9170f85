package protocol_test

import (
	"testing"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/protocol"
)

func TestIsPing(t *testing.T) {
	if !(&protocol.Reply{}).IsPing() || !(&protocol.Command{}).IsPong() {
		t.Error("the empty object is not taken for a ping or a pong")
	}
	if (&protocol.Reply{Error: push.ErrInternal}).IsPing() || (&protocol.Command{ID: 1}).IsPong() {
		t.Error("something else is taken for a ping or a pong")
	}
}

func TestKindNames(t *testing.T) {
	if got := protocol.KindSubRefresh.String(); got != "sub_refresh" {
		t.Error(got)
	}
	if got := protocol.Kind(200).String(); got != "kind(200)" {
		t.Error(got)
	}
	if got := protocol.PushPublication.String(); got != "pub" {
		t.Error(got)
	}
	if got := protocol.PushKind(200).String(); got != "push(200)" {
		t.Error(got)
	}
}
