package admission_test

import (
	"fmt"
	"net/netip"

	"github.com/sluice-push/sluice/push/admission"
)

// A node that admits two clients a second tells the others when to come again.
func Example() {
	limits := admission.NewLimits(nil)
	ramp := admission.NewRamp(2, 0)
	refuse := func(n admission.Name) bool { return limits.Exceeded(n) }
	now := int64(0) // in milliseconds
	for i := range 4 {
		if ramp.Admit(netip.MustParseAddr("192.0.2.1"), now, refuse) {
			fmt.Println("client", i, "is admitted")
		} else {
			fmt.Println("client", i, "comes again in", ramp.Wait(now))
		}
	}
	// Output:
	// client 0 is admitted
	// client 1 is admitted
	// client 2 comes again in 1s
	// client 3 comes again in 1.5s
}
