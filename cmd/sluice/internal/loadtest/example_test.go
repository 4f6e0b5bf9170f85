package loadtest_test

import (
	"fmt"
	"time"

	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest"
)

// A spec can be validated without a connection to the server.
func ExampleSpec_Validate() {
	spec := loadtest.Spec{URL: "http://127.0.0.1:8000", Shape: loadtest.Market, Clients: 10_000, Channels: 500, Each: 20, Rate: 2000, Duration: time.Minute}
	fmt.Println(spec.Validate())
	spec.Each = 501
	fmt.Println(spec.Validate())
	// Output:
	// <nil>
	// loadtest: 501 subscriptions per client to 500 channels: use 1 to the number of channels
}
