package cluster

import (
	"fmt"
	"strings"
)

// Explanation says how a choice was made. It can be encoded as JSON.
type Explanation struct {
	// Subject is what the choice was made for.
	Subject string `json:"subject"`
	// Steps are the rules, in the order in which they were applied.
	Steps []Step `json:"steps"`
	// Members are the IDs of the chosen members, the best first.
	Members []string `json:"members"`
	// Problem says why nothing was chosen; empty if something was.
	Problem string `json:"problem,omitempty"`
}

// Step is one rule of an [Explanation].
type Step struct {
	// Rule is the name of the rule.
	Rule string `json:"rule"`
	// Left are the IDs of the members that the rule leaves, in the order in which it leaves them.
	Left []string `json:"left"`
	// Why says what the rule has done, and for what reason.
	Why string `json:"why"`
}

// add adds a step. The slice is not kept.
func (e *Explanation) add(rule string, left []string, why string) {
	e.Steps = append(e.Steps, Step{Rule: rule, Left: append([]string{}, left...), Why: why})
}

// String returns the explanation as text: a line for the subject, one or two for each step, and one for the result.
func (e *Explanation) String() string {
	var b strings.Builder
	width := 0
	for _, s := range e.Steps {
		width = max(width, len(s.Rule))
	}
	b.WriteString(e.Subject + "\n")
	for _, s := range e.Steps {
		fmt.Fprintf(&b, "  %-*s  %s\n  %-*s  → %s\n", width, s.Rule, s.Why, width, "", listed(s.Left))
	}
	if e.Problem != "" {
		b.WriteString("no result: " + e.Problem + "\n")
	} else {
		b.WriteString("result: " + strings.Join(e.Members, ", ") + "\n")
	}
	return b.String()
}

// listed returns some IDs for a line of text.
func listed(ids []string) string {
	const most = 12
	switch {
	case len(ids) == 0:
		return "none"
	case len(ids) <= most:
		return fmt.Sprintf("%d: %s", len(ids), strings.Join(ids, ", "))
	}
	return fmt.Sprintf("%d: %s, …", len(ids), strings.Join(ids[:most], ", "))
}
