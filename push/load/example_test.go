package load_test

import (
	"fmt"
	"time"

	"github.com/sluice-push/sluice/push/load"
)

// A spec can be checked before anything is connected to.
func ExampleSpec_Validate() {
	spec := load.Spec{URL: "http://127.0.0.1:8000", Shape: load.Market, Clients: 10_000, Channels: 500, Each: 20, Rate: 2000, Duration: time.Minute}
	fmt.Println(spec.Validate())
	spec.Each = 501
	fmt.Println(spec.Validate())
	// Output:
	// <nil>
	// load: each client wants 501 of 500 channels: it has to be 1 to all
}
