package protobuf

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// maxFilterDepth is how deep the nodes of a filter may be nested. Each takes two of the 128 levels that its JSON text may have.
const maxFilterDepth = 64

// filterNode is a condition on tags, with the names that it has in JSON. Filters are rare and small, so that their text is read and written by
// encoding/json.
type filterNode struct {
	Op    string       `json:"op,omitempty"`
	Key   string       `json:"key,omitempty"`
	Cmp   string       `json:"cmp,omitempty"`
	Val   string       `json:"val,omitempty"`
	Vals  []string     `json:"vals,omitempty"`
	Nodes []filterNode `json:"nodes,omitempty"`
}

// filter reads a filter and returns its JSON text. The text of two filters cannot be merged as messages can, so a second one is refused.
func (d *decoder) filter(field string, second bool) []byte {
	if second {
		d.refuse(field, "only one filter", d.pos)
	}
	var n filterNode
	d.filterNode(field, &n, 1)
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(&n); err != nil {
		d.refuse(field, "a filter: "+err.Error(), d.pos)
		return nil
	}
	return bytes.TrimSuffix(text.Bytes(), []byte{'\n'})
}

func (d *decoder) filterNode(field string, n *filterNode, depth int) {
	if depth > maxFilterDepth {
		d.refuse(field, "at most "+strconv.Itoa(maxFilterDepth)+" levels", d.pos)
		d.skip()
		return
	}
	outer := d.enter()
	for d.next() {
		switch d.tag {
		case filterNodeOp:
			n.Op = d.str(field)
		case filterNodeKey:
			n.Key = d.str(field)
		case filterNodeCmp:
			n.Cmp = d.str(field)
		case filterNodeVal:
			n.Val = d.str(field)
		case filterNodeVals:
			n.Vals = append(n.Vals, d.str(field))
		case filterNodeNodes:
			n.Nodes = append(n.Nodes, filterNode{})
			d.filterNode(field, &n.Nodes[len(n.Nodes)-1], depth+1)
		default:
			d.skip()
		}
	}
	d.leave(outer)
}

// appendFilter appends the field of a filter. A text that is no filter becomes an operation of that name, which servers refuse: without a filter
// they would send too much.
func appendFilter(dst []byte, text []byte) []byte {
	if len(text) == 0 {
		return dst
	}
	var n filterNode
	if err := json.Unmarshal(text, &n); err != nil {
		n = filterNode{Op: strings.ToValidUTF8(string(text), "\ufffd")}
	}
	return appendFilterNode(dst, subscribeRequestTf, &n)
}

func appendFilterNode(dst []byte, tag uint64, n *filterNode) []byte {
	dst, m := open(dst, tag, 0)
	dst = appendString(dst, filterNodeOp, n.Op)
	dst = appendString(dst, filterNodeKey, n.Key)
	dst = appendString(dst, filterNodeCmp, n.Cmp)
	dst = appendString(dst, filterNodeVal, n.Val)
	for _, val := range n.Vals {
		dst = appendStringAlways(dst, filterNodeVals, val)
	}
	for i := range n.Nodes {
		dst = appendFilterNode(dst, filterNodeNodes, &n.Nodes[i])
	}
	return m.close(dst)
}
