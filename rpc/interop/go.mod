module github.com/sluice-push/sluice/rpc/interop

go 1.26.0

require (
	github.com/apache/thrift v0.25.0
	github.com/cloudwego/gopkg v0.1.10
	github.com/sluice-push/sluice v0.0.0-00010101000000-000000000000
	go.uber.org/goleak v1.3.0
	pgregory.net/rapid v1.3.0
)

require (
	github.com/bytedance/gopkg v0.1.1 // indirect
	golang.org/x/net v0.61.0 // indirect
	golang.org/x/text v0.43.0 // indirect
)

replace github.com/sluice-push/sluice => ../../
