module github.com/sluice-push/sluice

go 1.26

require (
	github.com/alecthomas/kong v1.17.0
	github.com/coder/websocket v1.8.15
	github.com/goccy/go-yaml v1.19.2
	github.com/gorilla/websocket v1.5.3
	go.uber.org/goleak v1.3.0
	pgregory.net/rapid v1.3.0
)
