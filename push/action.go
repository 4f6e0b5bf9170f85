package push

import (
	"fmt"
	"math/bits"
	"strings"
)

// Action is something that a client may do with a channel.
type Action uint8

// The actions.
const (
	ActionSubscribe Action = iota
	ActionPublish
	ActionHistory  // read the history
	ActionPresence // read which clients are subscribed
)

// actionNames are the names of the actions. The short ones are those that Centrifugo has published for tokens.
var actionNames = [...]struct{ name, short string }{
	ActionSubscribe: {"subscribe", "sub"}, ActionPublish: {"publish", "pub"}, ActionHistory: {"history", "hst"}, ActionPresence: {"presence", "prs"},
}

// String returns the name, for instance subscribe.
func (a Action) String() string {
	if int(a) < len(actionNames) {
		return actionNames[a].name
	}
	return fmt.Sprintf("action(%d)", uint8(a))
}

// ParseAction returns the action with a name: subscribe, publish, history or presence, or sub, pub, hst or prs for short.
func ParseAction(name string) (Action, error) {
	for a, names := range actionNames {
		if name == names.name || name == names.short {
			return Action(a), nil
		}
	}
	return 0, fmt.Errorf("unknown action %q: use subscribe, publish, history or presence", name)
}

// Actions is a set of actions.
type Actions uint8

// ParseActions returns the set of the actions with some names, see [ParseAction].
func ParseActions(names []string) (Actions, error) {
	var set Actions
	for _, name := range names {
		a, err := ParseAction(name)
		if err != nil {
			return 0, err
		}
		set |= 1 << a
	}
	return set, nil
}

// Has reports whether an action is in the set.
func (s Actions) Has(a Action) bool { return s&(1<<a) != 0 }

// String returns the names of the actions, with commas between.
func (s Actions) String() string {
	names := make([]string, 0, bits.OnesCount8(uint8(s)))
	for a := range actionNames {
		if s.Has(Action(a)) {
			names = append(names, actionNames[a].name)
		}
	}
	return strings.Join(names, ",")
}
