package session_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluice-push/sluice/session"
)

// The list has the same content as a slice on which the same operations are done.
func TestWaitList(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var l session.WaitList[int]
	nodes := make([]session.WaitNode[int], 20)
	for i := range nodes {
		nodes[i].Value = i
	}
	var line, taken []int
	for step := range 20_000 {
		i := rnd.IntN(len(nodes))
		switch rnd.IntN(4) {
		case 0, 1:
			if slices.Contains(line, i) || slices.Contains(taken, i) {
				continue
			}
			first := rnd.IntN(2) == 0
			l.Add(&nodes[i], first)
			if first {
				line = slices.Insert(line, 0, i)
			} else {
				line = append(line, i)
			}
		case 2:
			n := l.Pop()
			if n == nil != (len(line) == 0) || n != nil && n.Value != line[0] {
				t.Fatalf("step %d: %v was taken of %v", step, n, line)
			}
			if n == nil {
				continue
			}
			line, taken = line[1:], append(taken, n.Value)
		case 3:
			l.Remove(&nodes[i])
			line = slices.DeleteFunc(line, func(v int) bool { return v == i })
			if k := slices.Index(taken, i); k >= 0 { // it is done with, too
				l.Done()
				taken = slices.Delete(taken, k, k+1)
			}
		}
		if l.Len() != len(line) || l.Waiting() != (len(line)+len(taken) > 0) {
			t.Fatalf("step %d: %d wait, %v; want %v and %v", step, l.Len(), l.Waiting(), line, taken)
		}
	}
}
