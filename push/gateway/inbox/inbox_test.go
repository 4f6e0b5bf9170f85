package inbox_test

import (
	"fmt"
	"testing"

	"github.com/sluice-push/sluice/push/gateway/inbox"
)

// Frames are carried out in order, by one goroutine.
func Example() {
	var in inbox.Inbox
	_, begins := in.Put([]byte("a"), 100)
	_, again := in.Put([]byte("b"), 100)
	fmt.Println(begins, again)
	for frame := in.Next(); frame != nil; frame = in.Next() {
		fmt.Println(string(frame))
	}
	// Output:
	// true false
	// a
	// b
}

// An inbox takes so many bytes, or one frame that is longer, and so many frames. A closed one forgets them.
func TestBounds(t *testing.T) {
	var in inbox.Inbox
	put := func(n, most int, want bool) {
		t.Helper()
		if taken, _ := in.Put(make([]byte, n), most); taken != want {
			t.Errorf("%d bytes of %d: %v", n, most, taken)
		}
	}
	put(11, 10, true)
	put(1, 10, false)
	in.Next()
	put(5, 10, true)
	put(6, 10, false)
	put(5, 10, true)
	for range inbox.Most - 2 {
		put(0, 10, true)
	}
	put(0, 10, false)
	in.Close()
	put(100, 10, true)
	if frame := in.Next(); frame != nil {
		t.Errorf("a closed inbox has %d bytes", len(frame))
	}
}

// Pieces are joined if each follows the one before; beginnings are bounded, and forgotten.
func TestJoin(t *testing.T) {
	most := inbox.Bounds{Bytes: 4, Age: 10}
	piece := func(node string, at int, text string, more bool) inbox.Piece {
		return inbox.Piece{Node: node, Number: 1, Frame: []byte(text), At: at, More: more}
	}
	type step struct {
		piece inbox.Piece
		now   int64
		want  inbox.Result
		frame string
	}
	for name, steps := range map[string][]step{
		"whole":         {{piece("n", 0, "ab", true), 0, inbox.Taken, "ab"}, {piece("n", 2, "cd", false), 5, inbox.Taken, "abcd"}},
		"no beginning":  {{piece("n", 2, "cd", false), 0, inbox.Unknown, ""}},
		"a gap":         {{piece("n", 0, "a", true), 0, inbox.Taken, "a"}, {piece("n", 2, "c", false), 0, inbox.Unknown, ""}, {piece("n", 1, "b", false), 0, inbox.Unknown, ""}},
		"too long":      {{piece("n", 0, "abc", true), 0, inbox.Taken, "abc"}, {piece("n", 3, "de", false), 0, inbox.Full, ""}},
		"many together": {{piece("n", 0, "abc", true), 0, inbox.Taken, "abc"}, {piece("m", 0, "de", true), 0, inbox.Full, ""}},
		"forgotten":     {{piece("n", 0, "abc", true), 0, inbox.Taken, "abc"}, {piece("m", 0, "de", true), 11, inbox.Taken, "de"}, {piece("n", 3, "d", false), 11, inbox.Unknown, ""}},
	} {
		t.Run(name, func(t *testing.T) {
			var in inbox.Inbox
			for i, s := range steps {
				if frame, result := in.Join(&s.piece, s.now, most); result != s.want || string(frame) != s.frame {
					t.Errorf("step %d: %q, %s, want %q, %s", i, frame, result, s.frame, s.want)
				}
			}
			in.Close()
			last := piece("x", 0, "a", false)
			if _, result := in.Join(&last, 11, most); result != inbox.Unknown {
				t.Errorf("a closed inbox: %s", result)
			}
		})
	}
}
