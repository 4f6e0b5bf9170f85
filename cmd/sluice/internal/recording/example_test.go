package recording_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/sluice-push/sluice/cmd/sluice/internal/recording"
)

func Example() {
	file := strings.NewReader(`1723161254087896568 {"stream":"btcusdt@trade","data":{"s":"BTCUSDT","p":"61837.63"}}
1723161254091857168 {"stream":"ethusdt@trade","data":{"s":"ETHUSDT","p":"2683.80"}}
`)
	r := recording.NewReader(file, "trades", nil)
	defer r.Close()
	for {
		f, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(f.Line, time.Unix(0, f.Time).UTC().Format(time.TimeOnly), f.Symbol, string(f.Data))
	}
	// Output:
	// 1 23:54:14 BTCUSDT {"stream":"btcusdt@trade","data":{"s":"BTCUSDT","p":"61837.63"}}
	// 2 23:54:14 ETHUSDT {"stream":"ethusdt@trade","data":{"s":"ETHUSDT","p":"2683.80"}}
}
