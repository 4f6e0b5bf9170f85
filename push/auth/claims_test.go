package auth_test

import (
	"encoding/base64"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/auth"
)

const (
	subscribe = push.Actions(1 << push.ActionSubscribe)
	publish   = push.Actions(1 << push.ActionPublish)
	history   = push.Actions(1 << push.ActionHistory)
	presence  = push.Actions(1 << push.ActionPresence)
)

// base is the Base64 of b64info: with padding, and + and /.
func base(data string) string { return base64.StdEncoding.EncodeToString([]byte(data)) }

// A channel in both claims has the options of subs, however many there are.
func TestChannelsAndSubs(t *testing.T) {
	const n = 200
	channels, subs := make([]string, n), make(map[string]any, n)
	for i := range n {
		channels[i] = fmt.Sprintf("c%03d", (i*37)%n)
		subs[channels[i]] = map[string]int{"info": i}
	}
	c, err := newVerifier(t).Connection(t.Context(), make256(t, mustJSON(t, map[string]any{"channels": channels, "subs": subs})))
	if err != nil || len(c.Subscriptions) != n {
		t.Fatalf("%+v, %v", c, err)
	}
	for i, s := range c.Subscriptions {
		if s.Channel != fmt.Sprintf("c%03d", i) || s.Info == nil {
			t.Errorf("subscription %d is %+v", i, s)
		}
	}
}

// What a connection token says comes back.
func TestConnectionClaims(t *testing.T) {
	at := func(seconds int64, ns int64) time.Time { return time.Unix(seconds, ns) }
	for claims, want := range map[string]auth.Connection{
		`{}`:                   {},
		`{"sub":""}`:           {},
		`{"sub":"ann"}`:        {Token: auth.Token{User: "ann"}},
		`{"sub":"\u0061nn"}`:   {Token: auth.Token{User: "ann"}},
		`{"sub":"安娜 <1>"}`:     {Token: auth.Token{User: "安娜 <1>"}},
		"\n{ \"sub\" : \"a\"}": {Token: auth.Token{User: "a"}},
		`{"sub":"ann","jti":"7","iat":1,"exp":1900000000}`: {Token: auth.Token{
			User: "ann", ID: "7", IssuedAt: at(1, 0), ValidUntil: at(1900000000, 0), Expires: at(1900000000, 0),
		}},
		`{"exp":1900000000,"expire_at":1850000000.5}`: {Token: auth.Token{ValidUntil: at(1900000000, 0), Expires: at(1850000000, 5e8)}},
		`{"exp":1900000000,"expire_at":0}`:            {Token: auth.Token{ValidUntil: at(1900000000, 0)}},
		`{"exp":1900000000,"expire_at":0.5}`:          {Token: auth.Token{ValidUntil: at(1900000000, 0), Expires: at(0, 5e8)}},
		`{"exp":1900000000,"expire_at":1}`:            {Token: auth.Token{ValidUntil: at(1900000000, 0), Expires: at(1, 0)}},
		`{"expire_at":1900000000}`:                    {Token: auth.Token{Expires: at(1900000000, 0)}},
		`{"exp":1.9e9}`:                               {Token: auth.Token{ValidUntil: at(1900000000, 0), Expires: at(1900000000, 0)}},
		`{"exp":253402300799}`:                        {Token: auth.Token{ValidUntil: at(253402300799, 0), Expires: at(253402300799, 0)}},
		`{"iat":0}`:                                   {Token: auth.Token{IssuedAt: at(0, 0)}},
		`{"iat":-0.0}`:                                {Token: auth.Token{IssuedAt: at(0, 0)}},

		`{"info":{"a":1},"meta":{"b":[2]}}`:                               {Token: auth.Token{Info: []byte(`{"a":1}`)}, Meta: []byte(`{"b":[2]}`)},
		"{\"info\":{\n\"a\" : 1}}":                                        {Token: auth.Token{Info: []byte(`{"a":1}`)}},
		`{"info":"text"}`:                                                 {Token: auth.Token{Info: []byte(`"text"`)}},
		`{"info":null,"meta":null,"channels":null,"subs":null}`:           {},
		`{"caps":null,"b64info":null,"aud":null,"iss":null}`:              {},
		`{"b64info":"` + base(`{"a":"??>"}`) + `"}`:                       {Token: auth.Token{Info: []byte(`{"a":"??>"}`)}},
		`{"info":1,"b64info":"` + base("[\n2]") + `"}`:                    {Token: auth.Token{Info: []byte(`[2]`)}},
		`{"b64info":"` + base("null") + `"}`:                              {},
		`{"sub":"ann","SUB":"root","Sub":"root"}`:                         {Token: auth.Token{User: "ann"}},
		`{"INFO":1,"Meta":2,"CHANNELS":3,"SUBS":4,"Exp":5,"ſub":"x"}`:     {},
		`{"sub":"bob","sub":"ann","subs":{"a":{}},"subs":{"b":{}}}`:       {Token: auth.Token{User: "ann"}, Subscriptions: subscriptions("b")},
		`{"channels":["b","a","b"]}`:                                      {Subscriptions: subscriptions("a", "b")},
		`{"channels":["a","c"],"subs":{"b":{},"a":{"info":1}}}`:           {Subscriptions: []auth.ServerSubscription{{Channel: "a", Info: []byte(`1`)}, {Channel: "b"}, {Channel: "c"}}},
		`{"channels":[]}`:                                                 {},
		`{"subs":{"a":{"info":1,"data":{"x":2}}}}`:                        {Subscriptions: []auth.ServerSubscription{{Channel: "a", Info: []byte(`1`), Data: []byte(`{"x":2}`)}}},
		`{"subs":{"a":{"Info":1,"DATA":2}}}`:                              {Subscriptions: subscriptions("a")},
		`{"subs":{"a":{"b64info":"` + base("3") + `","b64data":"NA=="}}}`: {Subscriptions: []auth.ServerSubscription{{Channel: "a", Info: []byte(`3`), Data: []byte(`4`)}}},
		`{"subs":{"a":{"override":{"presence":{"value":true}}}}}`:         {Subscriptions: subscriptions("a")},
		`{"subs":{"a":{"info":1},"a":{"data":2}}}`:                        {Subscriptions: []auth.ServerSubscription{{Channel: "a", Data: []byte(`2`)}}},

		`{"caps":[{"channels":["a","b*"],"allow":["sub","publish"]}]}`:            {Capabilities: []auth.Capability{{Channels: []string{"a", "b*"}, Exact: true, Actions: subscribe | publish}}},
		`{"caps":[{"channels":"a","match":"exact","allow":["hst","presence"]}]}`:  {Capabilities: []auth.Capability{{Channels: []string{"a"}, Exact: true, Actions: history | presence}}},
		`{"caps":[{"channels":["b*"],"match":"wildcard","allow":["prs","prs"]}]}`: {Capabilities: []auth.Capability{{Channels: []string{"b*"}, Actions: presence}}},
		`{"caps":[{"channels":["a"],"allow":[]}]}`:                                {Capabilities: []auth.Capability{{Channels: []string{"a"}, Exact: true}}},
		`{"caps":[{"Channels":["a"],"Match":"regex","Allow":["sub"]}]}`:           {Capabilities: []auth.Capability{{Exact: true}}},
		// What a duplicate leaves out is not filled in from the one before.
		`{"caps":[{"channels":["*"],"match":"wildcard","allow":["pub"]}],"caps":[{"allow":["sub"]}]}`: {Capabilities: []auth.Capability{{Exact: true, Actions: subscribe}}},
	} {
		got, err := newVerifier(t).Connection(t.Context(), make256(t, claims))
		if err != nil {
			t.Errorf("claims %s: %v", claims, err)
			continue
		}
		if !reflect.DeepEqual(*got, want) {
			t.Errorf("claims %s:\n got %+v\nwant %+v", claims, *got, want)
		}
	}
}

func subscriptions(channels ...string) (out []auth.ServerSubscription) {
	for _, name := range channels {
		out = append(out, auth.ServerSubscription{Channel: name})
	}
	return out
}

// wrongClaims are claims that a connection token must not have, and a word of the error.
var wrongClaims = []struct{ claims, word string }{
	{``, "claims"},
	{`null`, "object"},
	{`[]`, "object"},
	{`"x"`, "object"},
	{`1`, "object"},
	{`{`, "claims"},
	{`{}x`, "claims"},
	{`{}{}`, "claims"},
	{"{\"sub\":\"\xff\"}", "UTF-8"},
	{`{"sub":"\ud800"}`, "claims"},
	{`{"x":` + deep(200) + `}`, "deep"},
	{strings.Repeat("[", 40000), "claims"},
	{`{"x":` + deep(23000) + `}`, "deep"},
	{`{"x":` + strings.Repeat(`{"a":`, 9000) + `}`, "claims"},

	{`{"sub":1}`, "sub"},
	{`{"sub":null}`, "sub"},
	{`{"sub":["ann"]}`, "sub"},
	{`{"sub":{}}`, "sub"},
	{`{"sub":true}`, "sub"},
	{`{"sub":"a\u0000"}`, "control"},
	{`{"sub":"a\n"}`, "control"},
	{`{"sub":"a\u007f"}`, "control"},
	{`{"sub":"` + strings.Repeat("a", 256) + `"}`, "256 bytes"},
	{`{"jti":1}`, "jti"},
	{`{"jti":"` + strings.Repeat("j", 256) + `"}`, "jti"},
	{`{"iss":1}`, "iss"},
	{`{"aud":1}`, "aud"},

	{`{"exp":"1900000000"}`, "exp"},
	{`{"exp":null}`, "exp"},
	{`{"exp":1e300}`, "range"},
	{`{"exp":1e999}`, "exp"},
	{`{"exp":-1}`, "range"},
	{`{"exp":-1e300}`, "range"},
	{`{"exp":-0.001}`, "range"},
	{`{"exp":253402300800}`, "range"},
	{`{"exp":9223372036854775808}`, "range"},
	{`{"exp":true}`, "exp"},
	{`{"exp":[1]}`, "exp"},
	{`{"exp":{}}`, "exp"},
	{`{"exp":1` + strings.Repeat("0", 30000) + `}`, "exp"},
	{`{"nbf":"x"}`, "nbf"},
	{`{"nbf":null}`, "nbf"},
	{`{"nbf":1e300}`, "nbf"},
	{`{"iat":"x"}`, "iat"},
	{`{"iat":null}`, "iat"},
	{`{"iat":1e300}`, "iat"},
	{`{"iat":-5}`, "iat"},
	{`{"expire_at":"0"}`, "expire_at"},
	{`{"expire_at":null}`, "expire_at"},
	{`{"expire_at":1e300}`, "expire_at"},
	{`{"expire_at":-1}`, "expire_at"},

	{`{"b64info":1}`, "b64info"},
	{`{"b64info":"!"}`, "info"},
	{`{"b64info":"` + base("{") + `"}`, "info"},
	{`{"b64info":"` + base(`{}`+"\x00") + `"}`, "info"},
	{`{"b64info":"` + base(deep(200)) + `"}`, "info"},
	{`{"b64info":"` + base("\"\xff\"") + `"}`, "info"},
	{`{"b64info":"eyJhIjoiPz8-In0="}`, "info"},
	{`{"meta":1}`, "meta"},
	{`{"meta":"x"}`, "meta"},
	{`{"meta":[]}`, "meta"},
	{`{"channel":1}`, "channel"},
	{`{"channel":["a"]}`, "channel"},

	{`{"channels":"a"}`, "channels"},
	{`{"channels":{"a":{}}}`, "channels"},
	{`{"channels":[1]}`, "channels"},
	{`{"channels":[""]}`, "empty"},
	{`{"channels":[null]}`, "empty"},
	{`{"channels":[":x"]}`, "colon"},
	{`{"channels":["$:x"]}`, "colon"},
	{`{"channels":["a\u0000"]}`, "control"},
	{`{"channels":["` + strings.Repeat("c", 256) + `"]}`, "256 bytes"},
	{`{"subs":["a"]}`, "subs"},
	{`{"subs":{"":{}}}`, "empty"},
	{`{"subs":{"a":1}}`, "subs"},
	{`{"subs":{"a":null}}`, "subs"},
	{`{"subs":{"a":{"b64info":"!"}}}`, "subs.info"},
	{`{"subs":{"a":{"b64data":"!"}}}`, "subs.data"},
	{`{"subs":{"a":{"b64data":2}}}`, "b64data"},
	{`{"subs":{"a":{"override":{"force_push_join_leave":{"value":1}}}}}`, "value"},
	{`{"subs":{"a":{"override":true}}}`, "override"},
	{`{"override":{"force_push_join_leave":true}}`, "force_push_join_leave"},
	{`{"subs":{"a\u000a":{}}}`, "control"},

	{`{"caps":{}}`, "caps"},
	{`{"caps":[1]}`, "caps"},
	{`{"caps":[null]}`, "caps"},
	{`{"caps":[{"channels":1}]}`, "channels"},
	{`{"caps":[{"channels":[1]}]}`, "channels"},
	{`{"caps":[{"channels":["a"],"allow":"sub"}]}`, "allow"},
	{`{"caps":[{"channels":["a"],"allow":["all"]}]}`, "all"},
	{`{"caps":[{"allow":["*"]}]}`, "unknown action"},
	{`{"caps":[{"allow":["SUB"]}]}`, "unknown action"},
	{`{"caps":[{"allow":[null]}]}`, "unknown action"},
	{`{"caps":[{"channels":["^a$"],"match":"regex","allow":["sub"]}]}`, "regex"},
	{`{"caps":[{"match":"Wildcard"}]}`, "Wildcard"},
	{`{"caps":[{"match":1}]}`, "match"},
}

// Claims that are signed, and wrong all the same. The error has the word, so that an operator sees which one it is.
func TestWrongClaims(t *testing.T) {
	for _, tt := range wrongClaims {
		_, err := newVerifier(t).Connection(t.Context(), make256(t, tt.claims))
		if reasonOf(t, err) != "claims" || !strings.Contains(err.Error(), tt.word) {
			t.Errorf("claims %.60s: %v; want one with %q", tt.claims, err, tt.word)
		}
		if err != nil && len(err.Error()) > 300 {
			t.Errorf("claims %.60s: the error has %d bytes", tt.claims, len(err.Error()))
		}
	}
	for claims, word := range map[string]string{
		`{"channel":":x"}`: "colon", `{"channel":"a\u0000"}`: "control", `{"channel":"a","b64info":"!"}`: "info", `{"channel":"a","sub":1}`: "sub",
	} {
		if _, err := newVerifier(t).Subscription(t.Context(), make256(t, claims)); reasonOf(t, err) != "claims" || !strings.Contains(err.Error(), word) {
			t.Errorf("subscription token %s: %v", claims, err)
		}
	}
}

// The claims of a subscription token; those that only connections have are no obstacle.
func TestSubscriptionClaims(t *testing.T) {
	got, err := newVerifier(t).Subscription(t.Context(), make256(t,
		`{"sub":"ann","channel":"$news:x","info":{"a":1},"exp":1900000000,"expire_at":0,"jti":"j","iat":5,"meta":{},"channels":["x"]}`))
	if err != nil {
		t.Fatal(err)
	}
	want := auth.Subscription{Channel: "$news:x", Token: auth.Token{
		User: "ann", ID: "j", IssuedAt: time.Unix(5, 0), ValidUntil: time.Unix(1900000000, 0), Info: []byte(`{"a":1}`),
	}}
	if !reflect.DeepEqual(*got, want) {
		t.Errorf(" got %+v\nwant %+v", *got, want)
	}
}

// Both kinds of tokens change a setting for a subscription, if they say so.
func TestOverride(t *testing.T) {
	for text, want := range map[string]string{
		`{}`: "not said",
		`{"join_leave":{"value":true},"presence":{"value":false}}`: "not said",
		`{"force_push_join_leave":{}}`:                             "not said",
		`{"force_push_join_leave":{"value":true}}`:                 "true",
		`{"force_push_join_leave":{"value":false}}`:                "false",
	} {
		v := newVerifier(t)
		c, err := v.Connection(t.Context(), make256(t, `{"subs":{"a":{"override":`+text+`}}}`))
		if err != nil {
			t.Fatal(err)
		}
		s, err := v.Subscription(t.Context(), make256(t, `{"channel":"a","override":`+text+`}`))
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range []auth.Override{c.Subscriptions[0].Override, s.Override} {
			got := "not said"
			if o.ForcePushJoinLeave != nil {
				got = strconv.FormatBool(*o.ForcePushJoinLeave)
			}
			if got != want {
				t.Errorf("%s: %s, want %s", text, got, want)
			}
		}
	}
}

// The user may be in another claim, which then has to be there.
func TestUserClaim(t *testing.T) {
	for claims, want := range map[string]string{
		`{"email":"ann@example.org","sub":"7"}`:  "ann@example.org",
		`{"email":"ann@example.org","sub":null}`: "ann@example.org",
		`{"email":""}`:                           "",
		`{"sub":"7"}`:                            "missing",
		`{"Email":"ann@example.org"}`:            "missing",
		`{"email":null}`:                         "not a string",
		`{"email":["ann@example.org"]}`:          "not a string",
		`{"email":"a\u0001"}`:                    "control",
	} {
		v := newVerifier(t, func(o *auth.Options) { o.UserClaim = "email" })
		c, err := v.Connection(t.Context(), make256(t, claims))
		if err != nil && !strings.Contains(err.Error(), want) || err == nil && c.User != want {
			t.Errorf("claims %s: %+v, %v; want %s", claims, c, err, want)
		}
	}
}

// A pattern never leaves its namespace.
func TestCapability(t *testing.T) {
	for _, tt := range []struct {
		pattern, channel string
		exact, wildcard  bool // whether it covers the channel as a name, and as a pattern
	}{
		{"a", "a", true, true},
		{"a", "b", false, false},
		{"a", "A", false, false},
		{"", "a", false, false},
		{"a", "ab", false, false},
		{"a", "a:b", false, false},
		{"*", "a", false, true},
		{"*", "a:b", false, true},
		{"*", "$a:b", false, true},
		{"*", "*", true, true},
		{"**", "a", false, true},
		{"**", "a:b", false, false},
		{"a*", "ab", false, true},
		{"a*", "ab:c", false, false},
		{"a*", "a:c", false, false},
		{"*a", "ba", false, true},
		{"*a", "b:a", false, false},
		{"a:*", "a:b", false, true},
		{"a:*", "a:b:c", false, true},
		{"a:*", "ab", false, false},
		{"a:*", "ab:c", false, false},
		{"a:*", "a", false, false},
		{"a:*", "$a:b", false, false},
		{"$a:*", "$a:b", false, true},
		{"$a:*", "a:b", false, false},
		{"$*", "$a:b", false, false},
		{"$*", "$b", false, true},
		{"*:b", "a:b", false, false},
		{"*:*", "a:b", false, false},
		{"a*:b", "ax:b", false, false},
		{"*a:b", "xa:b", false, false},
		{"?:b", "a:b", false, false},
		{"a:b*d", "a:bcd", false, true},
		{"a:b*d", "a:bcdx", false, false},
		{"a:*#*", "a:x#ann", false, true},
		{"a:x*x", "a:x", false, false},
		{"a:*b*b*", "a:xbxxbx", false, true},
		{"a：*", "a:b", false, false}, // a full-width colon
		{"A:*", "a:b", false, false},
	} {
		for exact, want := range map[bool]bool{true: tt.exact, false: tt.wildcard} {
			c := auth.Capability{Channels: []string{"other", tt.pattern}, Exact: exact}
			pattern, ok := c.Match(tt.channel)
			if ok != want || c.Covers(tt.channel) != want || ok && pattern != tt.pattern {
				t.Errorf("pattern %q (exact: %t) and channel %q: %q, %t", tt.pattern, exact, tt.channel, pattern, ok)
			}
		}
	}
}

// The first capability that covers a channel decides.
func TestCovering(t *testing.T) {
	list := []auth.Capability{
		{Channels: []string{"news:secret"}, Exact: true},
		{Channels: []string{"news:*"}, Actions: subscribe},
		{Channels: []string{"*"}, Actions: subscribe | publish},
	}
	for channel, want := range map[string]int{"news:secret": 0, "news:x": 1, "other": 2} {
		if got := auth.Covering(list, channel); got != &list[want] {
			t.Errorf("%s is covered by %+v", channel, got)
		}
	}
	if got := auth.Covering(list[:2], "other"); got != nil {
		t.Errorf("nothing covers the channel, but %+v", got)
	}
}

// The results own their bytes: a long token is not kept by the little that is used of it.
func TestResultsAreSmall(t *testing.T) {
	c, err := newVerifier(t).Connection(t.Context(), make256(t, fmt.Sprintf(`{"info":{"a":1},"meta":{},"x":"%s"}`, strings.Repeat("x", 40000))))
	if err != nil {
		t.Fatal(err)
	}
	if cap(c.Info) > 64 || cap(c.Meta) > 64 {
		t.Errorf("info and meta have room for %d and %d bytes", cap(c.Info), cap(c.Meta))
	}
}
