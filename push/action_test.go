package push_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/push"
)

// Each action has two names, and only these.
func TestParseAction(t *testing.T) {
	for want, names := range [][2]string{
		push.ActionSubscribe: {"subscribe", "sub"}, push.ActionPublish: {"publish", "pub"}, push.ActionHistory: {"history", "hst"}, push.ActionPresence: {"presence", "prs"},
	} {
		for _, name := range names {
			if got, err := push.ParseAction(name); err != nil || got != push.Action(want) || got.String() != names[0] {
				t.Errorf("%q is the action %v, %v", name, got, err)
			}
		}
	}
	for _, name := range []string{"", "Subscribe", "SUB", "sub ", "subs", "all", "*", "his"} {
		if got, err := push.ParseAction(name); err == nil || !strings.Contains(err.Error(), "use subscribe, publish, history or presence") {
			t.Errorf("%q is the action %v, %v", name, got, err)
		}
	}
	if got := push.Action(9).String(); got != "action(9)" {
		t.Errorf("an unknown action is %q", got)
	}
}

// A set has the actions that it was made of, in any order and however often.
func TestActions(t *testing.T) {
	all := []string{"subscribe", "publish", "history", "presence"}
	for mask := range 16 {
		var names []string
		for i, name := range all {
			if mask>>i&1 == 1 {
				names = append(names, name)
			}
		}
		given := append(slices.Clone(names), names...)
		slices.Reverse(given)
		set, err := push.ParseActions(given)
		if err != nil || set.String() != strings.Join(names, ",") {
			t.Errorf("%q is the set %q, %v", given, set, err)
		}
		for i := range all {
			if set.Has(push.Action(i)) != (mask>>i&1 == 1) {
				t.Errorf("the set %q has %v: %t", set, push.Action(i), set.Has(push.Action(i)))
			}
		}
		if set.Has(push.Action(4)) || set.Has(push.Action(200)) {
			t.Errorf("the set %q has an unknown action", set)
		}
	}
	if set, err := push.ParseActions([]string{"subscribe", "fly"}); err == nil || set != 0 {
		t.Errorf("a set with an unknown action is %q, %v", set, err)
	}
}
