package clusterinfo

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/sluice-push/sluice/cmd/sluice/internal/clusternode"
	"github.com/sluice-push/sluice/push/cluster"
)

// table writes columns of text, with two spaces between them.
type table struct{ *tabwriter.Writer }

func newTable(out io.Writer) table { return table{tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)} }

func (t table) row(cells ...string) { _, _ = fmt.Fprintln(t, strings.Join(cells, "\t")) }

// write prints what a node knows of its cluster, for people.
func write(out io.Writer, v *clusternode.View) error {
	var text bytes.Buffer
	switch {
	case v.Cluster == "":
		fmt.Fprintf(&text, "%s is in no cluster: it serves its clients alone, and reads all channels itself.\n\n", v.Node)
	case len(v.Members) == 1:
		fmt.Fprintf(&text, "Cluster %q: %s knows no other node.\n\n", v.Cluster, v.Node)
	default:
		fmt.Fprintf(&text, "Cluster %q: %d nodes, as %s knows them.\n\n", v.Cluster, len(v.Members), v.Node)
	}
	nodes := newTable(&text)
	nodes.row("NODE", "ROLE", "VERSION", "PUBLIC", "LINK", "LABELS", "WEIGHT", "SESSIONS", "DRAINING")
	for i := range v.Members {
		m := &v.Members[i]
		labels, draining := "-", "no"
		if len(m.Labels) > 0 {
			labels = cluster.Labels(m.Labels).String()
		}
		if m.Draining {
			draining = "yes"
		}
		nodes.row(m.ID, m.Role.String(), cmp.Or(m.Version, "-"), cmp.Or(m.Public, "-"), cmp.Or(m.Link, "-"), labels,
			strconv.Itoa(m.Share()), sessions(m), draining)
	}
	_ = nodes.Flush()
	if v.Cluster != "" {
		writePlaces(&text, v)
	}
	_, err := out.Write(text.Bytes())
	return err
}

// sessions returns the number of sessions of a node, and how many it may have.
func sessions(m *cluster.Member) string {
	switch {
	case m.Role == cluster.Hub:
		return "-"
	case m.Capacity == 0:
		return strconv.Itoa(m.Sessions)
	}
	return fmt.Sprintf("%d of %d", m.Sessions, m.Capacity)
}

// writePlaces prints which hub has which partitions.
func writePlaces(text *bytes.Buffer, v *clusternode.View) {
	if !slices.ContainsFunc(v.Members, func(m cluster.Member) bool { return m.IsHub() || m.Role == cluster.Gateway }) {
		text.WriteString("\nNo node serves gateways, and there are none: each node reads all partitions from the broker.\n")
		return
	}
	if v.Zone == "" {
		text.WriteString("\nPartitions that gateways get from hubs:\n\n")
	} else {
		fmt.Fprintf(text, "\nPartitions that gateways in zone %q get from hubs:\n\n", v.Zone)
	}
	places := newTable(text)
	places.row("NAMESPACE", "HUB", "PARTITIONS")
	for _, ns := range v.Namespaces {
		name := cmp.Or(ns.Name, `""`)
		if ns.Problem != "" {
			places.row(name, "none", strings.TrimPrefix(ns.Problem, cluster.ErrNoHub.Error()+": "))
			continue
		}
		of := make(map[string][]int)
		for i, hub := range ns.Hubs {
			of[hub] = append(of[hub], i)
		}
		for i, hub := range inOrder(of) {
			if i > 0 {
				name = ""
			}
			places.row(name, hub, ranges(of[hub]))
		}
	}
	_ = places.Flush()
}

// inOrder returns the hubs that have partitions, sorted.
func inOrder(of map[string][]int) []string {
	hubs := make([]string, 0, len(of))
	for hub := range of {
		hubs = append(hubs, hub)
	}
	slices.Sort(hubs)
	return hubs
}

// ranges returns numbers in ascending order as text, as in "0, 2-5".
func ranges(numbers []int) string {
	var parts []string
	for i := 0; i < len(numbers); {
		last := i
		for last+1 < len(numbers) && numbers[last+1] == numbers[last]+1 {
			last++
		}
		part := strconv.Itoa(numbers[i])
		if last > i {
			part += "-" + strconv.Itoa(numbers[last])
		}
		parts = append(parts, part)
		i = last + 1
	}
	return strings.Join(parts, ", ")
}
