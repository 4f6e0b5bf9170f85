package gateway_test

import (
	"maps"
	"testing"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/channel"
	"github.com/sluice-push/sluice/push/gateway"
)

// TestLostTag: a loss is a tag of one client's publication, and none of the entry, which all clients share.
func TestLostTag(t *testing.T) {
	for _, tt := range []struct {
		lost int64
		tags map[string]string
		want map[string]string
	}{
		{0, nil, nil},
		{0, map[string]string{"a": "b"}, map[string]string{"a": "b"}},
		{7, nil, map[string]string{push.TagLost: "7"}},
		{-1, map[string]string{"a": "b"}, map[string]string{"a": "b", push.TagLost: "-1"}},
		{3, map[string]string{push.TagLost: "of another system"}, map[string]string{push.TagLost: "3"}},
	} {
		before := maps.Clone(tt.tags)
		e := &channel.Entry{Publication: push.Publication{Data: []byte("1"), Tags: tt.tags}}
		got := gateway.PublicationOf(&channel.Delivery{Entry: e, Lost: tt.lost})
		if !maps.Equal(got.Tags, tt.want) || !maps.Equal(e.Tags, before) {
			t.Errorf("%d lost: %v, and the entry has %v", tt.lost, got.Tags, e.Tags)
		}
	}
}
