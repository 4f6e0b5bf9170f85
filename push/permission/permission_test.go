package permission_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/auth"
	"github.com/sluice-push/sluice/push/permission"
)

const (
	subscribe = push.Actions(1 << push.ActionSubscribe)
	publish   = push.Actions(1 << push.ActionPublish)
	history   = push.Actions(1 << push.ActionHistory)
	presence  = push.Actions(1 << push.ActionPresence)
)

var rules = permission.Rules{
	"":       {User: subscribe | history},
	"open":   {Anonymous: subscribe, User: subscribe | publish | history | presence},
	"closed": {},
	"secret": {User: subscribe | publish | history | presence, Private: true},
}

func ExampleRules_Decide() {
	rules := permission.Rules{"news": {User: 1 << push.ActionSubscribe}}
	request := &permission.Request{Channel: "news:sport", Action: push.ActionPublish, User: "ann"}
	rule, err := rules.Decide(request)
	fmt.Println(rule, err)
	fmt.Println(rules.Explain(request))
	// Output:
	// default permission denied (code 103)
	// the namespace "news" does not allow publish to the user "ann", and no capability does
}

func token(channel, user string) *auth.Subscription {
	return &auth.Subscription{Token: auth.Token{User: user}, Channel: channel}
}

func caps(actions push.Actions, patterns ...string) []auth.Capability {
	return []auth.Capability{{Channels: patterns, Actions: actions}}
}

// TestDecide has a row for each way in which each rule decides.
func TestDecide(t *testing.T) {
	const (
		sub = push.ActionSubscribe
		pub = push.ActionPublish
	)
	type request = permission.Request
	for name, tt := range map[string]struct {
		request
		rule permission.Rule
		err  error
	}{
		"empty name":                     {request{}, permission.ByChannel, push.ErrBadRequest},
		"colon first":                    {request{Channel: ":x"}, permission.ByChannel, push.ErrBadRequest},
		"private prefix, then colon":     {request{Channel: "$:x"}, permission.ByChannel, push.ErrBadRequest},
		"control character":              {request{Channel: "open:\x00"}, permission.ByChannel, push.ErrBadRequest},
		"unknown namespace":              {request{Channel: "nosuch:x", User: "ann"}, permission.ByChannel, push.ErrUnknownChannel},
		"look-alike of a namespace":      {request{Channel: "оpen:x", User: "ann"}, permission.ByChannel, push.ErrUnknownChannel}, // a Cyrillic о
		"full-width colon":               {request{Channel: "open：x", Action: pub, User: "ann"}, permission.ByDefault, push.ErrPermissionDenied},
		"namespace in another":           {request{Channel: "closed:open:x", User: "ann"}, permission.ByDefault, push.ErrPermissionDenied},
		"two private prefixes":           {request{Channel: "$$open:x", User: "ann"}, permission.ByChannel, push.ErrUnknownChannel},
		"namespace, anonymous":           {request{Channel: "open:x"}, permission.ByNamespace, nil},
		"namespace, not to anonymous":    {request{Channel: "open:x", Action: pub}, permission.ByDefault, push.ErrPermissionDenied},
		"namespace, user":                {request{Channel: "open:x", Action: pub, User: "ann"}, permission.ByNamespace, nil},
		"namespace, other action":        {request{Channel: "x", Action: pub, User: "ann"}, permission.ByDefault, push.ErrPermissionDenied},
		"closed":                         {request{Channel: "closed:x", User: "ann"}, permission.ByDefault, push.ErrPermissionDenied},
		"user-limited, in the list":      {request{Channel: "closed:x#bob,ann", User: "ann"}, permission.ByUserLimit, nil},
		"user-limited, others":           {request{Channel: "open:x#bob,ann", User: "an"}, permission.ByUserLimit, push.ErrPermissionDenied},
		"user-limited, anonymous":        {request{Channel: "open:x#"}, permission.ByUserLimit, push.ErrPermissionDenied},
		"user-limited, empty entry":      {request{Channel: "open:x#bob,,"}, permission.ByUserLimit, push.ErrPermissionDenied},
		"user-limited, two":              {request{Channel: "open:x#ann#bob", User: "ann"}, permission.ByUserLimit, push.ErrPermissionDenied},
		"user-limited, user of commas":   {request{Channel: "open:x#ann,bob", User: "ann,bob"}, permission.ByUserLimit, push.ErrPermissionDenied},
		"user-limited, publish":          {request{Channel: "closed:x#ann", Action: pub, User: "ann"}, permission.ByDefault, push.ErrPermissionDenied},
		"user-limited, history":          {request{Channel: "#ann", Action: push.ActionHistory, User: "ann"}, permission.ByNamespace, nil},
		"user-limited, others' token":    {request{Channel: "open:#ann", User: "bob", Token: token("open:#ann", "bob")}, permission.ByUserLimit, push.ErrPermissionDenied},
		"user-limited, capability":       {request{Channel: "open:#ann", User: "bob", Capabilities: caps(subscribe, "*")}, permission.ByUserLimit, push.ErrPermissionDenied},
		"private by name":                {request{Channel: "$open:x", User: "ann"}, permission.ByPrivate, push.ErrPermissionDenied},
		"private by namespace":           {request{Channel: "secret:x", User: "ann"}, permission.ByPrivate, push.ErrPermissionDenied},
		"private, capability":            {request{Channel: "secret:x", User: "ann", Capabilities: caps(subscribe, "*", "secret:x")}, permission.ByPrivate, push.ErrPermissionDenied},
		"private, token":                 {request{Channel: "secret:x", User: "ann", Token: token("secret:x", "ann")}, permission.ByToken, nil},
		"private, token of another":      {request{Channel: "secret:x", User: "ann", Token: token("secret:x", "bob")}, permission.ByToken, push.ErrPermissionDenied},
		"private, token for another":     {request{Channel: "secret:x", User: "ann", Token: token("secret:y", "ann")}, permission.ByToken, push.ErrPermissionDenied},
		"private, anonymous token":       {request{Channel: "$x", Token: token("$x", "")}, permission.ByToken, nil},
		"private and limited":            {request{Channel: "$x#ann", User: "ann"}, permission.ByPrivate, push.ErrPermissionDenied},
		"private, not subscribed":        {request{Channel: "secret:x", Action: push.ActionHistory, User: "ann"}, permission.ByPrivate, push.ErrPermissionDenied},
		"private, subscribed":            {request{Channel: "secret:x", Action: push.ActionHistory, User: "ann", Subscribed: true}, permission.ByNamespace, nil},
		"private, subscribed, anonymous": {request{Channel: "secret:x", Action: pub, Subscribed: true}, permission.ByDefault, push.ErrPermissionDenied},
		"token for an open channel":      {request{Channel: "closed:x", User: "ann", Token: token("closed:x", "ann")}, permission.ByToken, nil},
		"bad token for an open channel":  {request{Channel: "open:x", User: "ann", Token: token("open:y", "ann")}, permission.ByToken, push.ErrPermissionDenied},
		"token does not publish":         {request{Channel: "closed:x", Action: pub, User: "ann", Token: token("closed:x", "ann")}, permission.ByDefault, push.ErrPermissionDenied},
		"capability":                     {request{Channel: "closed:x", Action: sub, User: "ann", Capabilities: caps(subscribe, "closed:*")}, permission.ByCapability, nil},
		"capability, anonymous":          {request{Channel: "closed:x", Capabilities: caps(subscribe, "closed:x")}, permission.ByCapability, nil},
		"capability, other action":       {request{Channel: "closed:x", Action: pub, User: "ann", Capabilities: caps(subscribe, "*")}, permission.ByDefault, push.ErrPermissionDenied},
		"capability, other namespace":    {request{Channel: "closed:x", User: "ann", Capabilities: caps(subscribe, "close*", "*:x", "open:*", "clo*d:x")}, permission.ByDefault, push.ErrPermissionDenied},
	} {
		t.Run(name, func(t *testing.T) {
			rule, err := rules.Decide(&tt.request)
			if rule != tt.rule || !errors.Is(err, tt.err) || (err == nil) != (tt.err == nil) {
				t.Errorf("%v, %v; want %v, %v", rule, err, tt.rule, tt.err)
			}
			if why := rules.Explain(&tt.request); why == "" || strings.Contains(why, "%!") {
				t.Errorf("explained as %q", why)
			}
		})
	}
}

// TestTakesAway: whatever permits, a private channel is closed to those without a token, and a limited one to those who are not in its name.
func TestTakesAway(t *testing.T) {
	names := rapid.StringMatching(`(\$|)((open|closed|secret|nosuch):|)[a-z]{0,3}(#[ab]{0,2}(,[ab]{0,2})?)?`)
	rapid.Check(t, func(t *rapid.T) {
		r := &permission.Request{
			Channel: names.Draw(t, "channel"), Action: push.Action(rapid.IntRange(0, 3).Draw(t, "action")), User: rapid.StringMatching(`[ab]{0,2}`).Draw(t, "user"),
			Capabilities: caps(push.Actions(rapid.IntRange(0, 15).Draw(t, "actions")), rapid.SliceOf(names).Draw(t, "patterns")...),
			Subscribed:   rapid.Bool().Draw(t, "subscribed"),
		}
		if rapid.Bool().Draw(t, "has token") {
			r.Token = token(r.Channel, rapid.StringMatching(`[ab]{0,2}`).Draw(t, "user of the token"))
		}
		_, err := rules.Decide(r)
		if err != nil {
			return
		}
		_, list, isLimited := strings.Cut(r.Channel, "#")
		isPrivate := strings.HasPrefix(r.Channel, "$") || strings.HasPrefix(r.Channel, "secret:")
		switch {
		case isLimited && (r.User == "" || !slices.Contains(strings.Split(list, ","), r.User)):
			t.Errorf("%+v: permitted to a user who is not in the name", r)
		case isPrivate && r.Action == push.ActionSubscribe && (r.Token == nil || r.Token.User != r.User):
			t.Errorf("%+v: permitted without a token of the user's", r)
		case isPrivate && r.Action != push.ActionSubscribe && !r.Subscribed:
			t.Errorf("%+v: permitted without a subscription", r)
		case strings.HasPrefix(strings.TrimPrefix(r.Channel, "$"), "nosuch:"):
			t.Errorf("%+v: permitted in a namespace that does not exist", r)
		}
	})
}

// BenchmarkDecide is what each subscribe and publish command costs.
func BenchmarkDecide(b *testing.B) {
	r := &permission.Request{Channel: "closed:ACME", User: "ann", Capabilities: caps(subscribe, "other:*", "closed:*")}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := rules.Decide(r); err != nil {
			b.Fatal(err)
		}
	}
}
