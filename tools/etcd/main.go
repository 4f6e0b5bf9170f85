// Command etcd is the etcd server that the tests of package discovery/etcd start. It is a module of its own because of what it needs.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
