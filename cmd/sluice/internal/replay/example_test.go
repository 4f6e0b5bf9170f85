package replay_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sluice-push/sluice/cmd/sluice/internal/replay"
)

// printer is a publisher that prints.
type printer struct{}

func (printer) Publish(_ context.Context, p replay.Publication) error {
	fmt.Println(p.Channel, string(p.Data))
	return nil
}

func Example() {
	folder, err := os.MkdirTemp("", "replay")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(folder)
	file := filepath.Join(folder, "recording")
	frames := `1723161254087896568 {"s":"BTCUSDT","p":"61837.63"}
1723161254091857168 {"s":"BTCUSDT","p":"61837.64"}
`
	if err := os.WriteFile(file, []byte(frames), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	sum, err := replay.Run(context.Background(), replay.Options{
		Files:     []string{file},
		Publisher: printer{},
		Channel:   "ticks:{symbol}",
		Speed:     replay.Max,
	})
	fmt.Println(sum.Published, err)
	// Output:
	// ticks:BTCUSDT {"s":"BTCUSDT","p":"61837.63"}
	// ticks:BTCUSDT {"s":"BTCUSDT","p":"61837.64"}
	// 2 <nil>
}
