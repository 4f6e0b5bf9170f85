module github.com/sluice-push/sluice/bench

go 1.26.0

require (
	github.com/cloudwego/netpoll v0.7.2
	github.com/sluice-push/sluice v0.0.0-00010101000000-000000000000
	go.uber.org/goleak v1.3.0
)

require (
	github.com/bytedance/gopkg v0.1.1 // indirect
	github.com/cloudwego/gopkg v0.1.4 // indirect
)

replace github.com/sluice-push/sluice => ../
