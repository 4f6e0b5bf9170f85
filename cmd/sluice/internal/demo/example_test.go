package demo_test

import (
	"fmt"
	"time"

	"github.com/sluice-push/sluice/cmd/sluice/internal/demo"
)

func Example() {
	f := demo.New(1)
	opening := time.UnixMilli(1723161253000)
	fmt.Println(len(f.Step(opening)), "symbols open")
	for _, t := range f.Step(opening.Add(25 * time.Millisecond)) {
		fmt.Println(string(t.AppendJSON(nil)))
	}
	// Output:
	// 50 symbols open
	// {"symbol":"ALVOR","price":38.44,"change":-0.12,"volume":90,"time":1723161253005}
	// {"symbol":"WALDU","price":1135.62,"change":-0.04,"volume":70,"time":1723161253010}
	// {"symbol":"OLDRA","price":45.11,"change":-0.01,"volume":120,"time":1723161253017}
	// {"symbol":"GELTA","price":30.47,"change":0.06,"volume":70,"time":1723161253019}
}
