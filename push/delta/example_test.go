package delta_test

import (
	"fmt"

	"github.com/sluice-push/sluice/push/delta"
)

// The publisher computes a difference, and sends it if it is shorter than the value. The client applies it to its old value.
func Example() {
	before := []byte(`{"pair":"ABCUSD","bid":"25.3519","ask":"25.3652","venue":"north","status":"open"}`)
	now := []byte(`{"pair":"ABCUSD","bid":"25.3522","ask":"25.3652","venue":"north","status":"open"}`)

	var encoder delta.Encoder
	d := encoder.AppendFossil(nil, before, now)
	fmt.Printf("%d bytes instead of %d: %q\n", len(d), len(now), d)

	const limit = 64 << 10 // the client's limit
	got, err := delta.ApplyFossil(nil, before, d, limit)
	fmt.Println(string(got) == string(now), err)
	_, err = delta.ApplyFossil(nil, []byte(`{}`), d, limit)
	fmt.Println(err)
	// Output:
	// 21 bytes instead of 81: "1H\nT@0,2:22n@V,svJqQ;"
	// true <nil>
	// delta: apply Fossil delta: the delta was made from another value: it copies bytes 0 to 29 of one that has 2
}

func ExampleEncoder_AppendMergePatch() {
	before := []byte(`{"pair":"ABCUSD","bid":25.3519,"size":{"bid":3,"ask":7},"halted":"no news"}`)
	now := []byte(`{"pair":"ABCUSD","bid":25.3522,"size":{"bid":2,"ask":7}}`)

	var encoder delta.Encoder
	patch, ok := encoder.AppendMergePatch(nil, before, now)
	fmt.Println(string(patch), ok)

	got, err := delta.ApplyMergePatch(nil, before, patch)
	fmt.Println(string(got), err)

	_, ok = encoder.AppendMergePatch(nil, before, []byte(`{"pair":null}`))
	fmt.Println("a member that becomes null:", ok)
	// Output:
	// {"bid":25.3522,"size":{"bid":2},"halted":null} true
	// {"pair":"ABCUSD","bid":25.3522,"size":{"bid":2,"ask":7}} <nil>
	// a member that becomes null: false
}
