package cluster

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Labels are labels that a rule wants. A node fits if it has all of them with these values. An empty value means that the node must not have the
// label.
type Labels map[string]string

// String returns the labels sorted by name, as in "tier=vip, zone=a".
func (l Labels) String() string { return compileLabels(l).String() }

// checkLabels returns an error unless names and values of labels are valid.
func checkLabels(labels map[string]string) error {
	if len(labels) > MaxLabels {
		return fmt.Errorf("labels: %d are more than %d", len(labels), MaxLabels)
	}
	for _, l := range compileLabels(labels) {
		if l.name == "" {
			return errors.New("labels: a name is empty")
		}
		if err := checkText("label", l.name); err != nil {
			return err
		}
		if err := checkText("label "+shortened(l.name), l.value); err != nil {
			return err
		}
	}
	return nil
}

// label is a label of a node, or one that a rule wants.
type label struct {
	name, value string
	claim       bool // value is the name of a claim of the client, whose value is wanted
}

// labelList is labels sorted by name. In a loop over nodes it is several times as fast as a map.
type labelList []label

func compileLabels(labels map[string]string) labelList {
	out := make(labelList, 0, len(labels))
	for name, value := range labels {
		out = append(out, label{name: name, value: value})
	}
	slices.SortFunc(out, func(a, b label) int { return strings.Compare(a.name, b.name) })
	return out
}

// value returns the value of a label, empty if it is absent.
func (l labelList) value(name string) string {
	for i := range l {
		if l[i].name == name {
			return l[i].value
		}
	}
	return ""
}

// contains reports whether all wanted labels are there.
func (l labelList) contains(wanted labelList) bool {
	for i := range wanted {
		if l.value(wanted[i].name) != wanted[i].value {
			return false
		}
	}
	return true
}

func (l labelList) String() string {
	parts := make([]string, len(l))
	for i, label := range l {
		switch {
		case label.claim:
			parts[i] = label.name + "={" + label.value + "}"
		case label.value == "":
			parts[i] = "no " + label.name
		default:
			parts[i] = label.name + "=" + label.value
		}
	}
	if len(parts) == 0 {
		return "any labels"
	}
	return strings.Join(parts, ", ")
}

// compileWanted is compileLabels for rules of routes, in which a value {NAME} stands for a claim.
func compileWanted(labels Labels) labelList {
	out := compileLabels(labels)
	for i := range out {
		if claim, ok := claimOf(out[i].value); ok {
			out[i].value, out[i].claim = claim, true
		}
	}
	return out
}

// claimOf returns the name in a value of the form {NAME}.
func claimOf(value string) (claim string, ok bool) {
	if len(value) > 2 && value[0] == '{' && value[len(value)-1] == '}' {
		return value[1 : len(value)-1], true
	}
	return "", false
}

// resolve returns the labels with the client's claims. A claim that the client does not have is empty, and then missing is true. The result may use
// buf.
func (l labelList) resolve(buf *[MaxLabels]label, c *Client) (wanted labelList, missing bool) {
	if !slices.ContainsFunc(l, func(l label) bool { return l.claim }) {
		return l, false
	}
	wanted = labelList(buf[:copy(buf[:], l)])
	for i := range wanted {
		if wanted[i].claim {
			wanted[i].value, wanted[i].claim = c.Claims[wanted[i].value], false
			missing = missing || wanted[i].value == ""
		}
	}
	return wanted, missing
}
