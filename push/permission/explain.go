package permission

import (
	"fmt"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/auth"
)

// Explain says in a sentence, for people who run the node, how a rule decides a request, as [Rules.Decide] has it.
func (rules Rules) Explain(r *Request) string {
	rule, err := rules.Decide(r)
	users, _ := usersOf(r.Channel)
	client := "an anonymous client"
	if r.User != "" {
		client = fmt.Sprintf("the user %q", r.User)
	}
	switch {
	case rule == ByChannel:
		return err.Error()
	case rule == ByUserLimit && err != nil:
		return fmt.Sprintf("the channel is limited to the users %q, and %s is not among them", users, client)
	case rule == ByUserLimit:
		return fmt.Sprintf("the name of the channel has %s", client)
	case rule == ByToken && err != nil:
		return fmt.Sprintf("the subscription token is for the channel %q and the user %q, not for %s", r.Token.Channel, r.Token.User, client)
	case rule == ByToken:
		return fmt.Sprintf("the subscription token is for this channel and %s", client)
	case rule == ByPrivate && r.Action == push.ActionSubscribe:
		return "the channel is private, and there is no subscription token"
	case rule == ByPrivate:
		return "the channel is private, and the client is not subscribed to it"
	case rule == ByNamespace:
		return fmt.Sprintf("the namespace %q allows %v to %s", push.Namespace(r.Channel), r.Action, client)
	case rule == ByCapability:
		pattern, _ := auth.Covering(r.Capabilities, r.Channel).Match(r.Channel)
		return fmt.Sprintf("the connection token allows %v in %q", r.Action, pattern)
	}
	return fmt.Sprintf("the namespace %q does not allow %v to %s, and no capability does", push.Namespace(r.Channel), r.Action, client)
}
