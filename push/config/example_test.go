package config_test

import (
	"fmt"

	"github.com/sluice-push/sluice/push/config"
)

func ExampleParse() {
	file := []byte("limits:\n  sessions: 1000\nnamspaces:\n  - name: quotes\n")
	_, err := config.Parse("config.yaml", file, []string{"SLUICE_LISTEN=8000"}, nil)
	fmt.Println(err)
	// Output:
	// config: 2 problems:
	//   namspaces: unknown key, did you mean namespaces? (config.yaml:3:1)
	//   listen: "8000" is not an address: use host:port or :port (SLUICE_LISTEN)
}

func ExampleLoad() {
	c, err := config.Load("", []string{"SLUICE_NAMESPACES=[{name: quotes, mode: table}]"}, map[string]string{"listen": ":9999"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(c.Listen, c.Limits.MessageBytes, c.Namespaces[0].Name, c.Namespaces[0].Mode, c.Namespaces[0].History.Age)
	// Output: :9999 64KiB quotes table 5m
}
