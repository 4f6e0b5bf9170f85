package nats

import (
	"log/slog"
	"time"
)

// Options are the settings of a [Broker]. For every number and duration zero means the default. Negative means off, where that is possible.
type Options struct {
	// URL is that of an external server, or several with commas between. It may contain a user, a password or a token. If URL is empty, a server
	// is embedded in the process, with its data in Dir.
	URL string
	// Credentials is the path of a file with a JWT and a key for the external server, or empty.
	Credentials string
	// Replicas is how many servers of an external cluster store each durable stream: 1, 3 or 5. It has an effect when the stream is made. With
	// more than 1, a server may answer a Load although it lags behind the one that acknowledged, and then the last publications are missing; no
	// test runs against a cluster. Default 1.
	Replicas int

	// Dir is the data folder of the embedded server. It is made if it does not exist. Only one process at a time may use it.
	Dir string
	// Listen is an address on which NATS clients can reach the embedded server too, or empty.
	Listen string
	// Token is the token that clients have to present to the embedded server when it listens. If it is empty, they need none, and Listen has to
	// be a loopback address.
	Token string
	// Sync is the interval at which the embedded server syncs its files to the disk. [SyncAlways] syncs before each acknowledgement. Default 2
	// minutes.
	Sync time.Duration
	// MaxStore is how many bytes publications may take in Dir. Beyond that, further ones are refused. Default: the free space when the server
	// starts, and the space that it already uses, less a reserve.
	MaxStore int64

	// MaxPublication is the largest publication stored, in bytes as counted by push.Publication.Size. Default 1 MiB. In any case a message may
	// not be larger than an external server accepts, nor than 32 MiB less 1 KiB, which is the limit of NATS.
	MaxPublication int
	// Window is how many publications to a partition may be pending: not yet acknowledged, or not yet delivered to the followers attached in
	// this process. Default 4096.
	Window int
	// PublishWait is how long Publish waits for room in the window before it returns ErrBusy. Default 5 s; off: it does not wait.
	PublishWait time.Duration
	// Timeout is how long the server may take to answer a request. Default 5 s.
	Timeout time.Duration

	// Check is called for the data of every publication from the server, and for the JSON in its client info, because other programs may
	// publish, too. It returns the bytes to deliver instead. If it returns an error, the publication is left out and logged. It must not change
	// its argument, and goroutines call it concurrently. If Check is nil, data is delivered as it is.
	Check func(data []byte) ([]byte, error)
	// Logger logs lost and restored connections, and messages that cannot be read. If it is nil, nothing is logged.
	Logger *slog.Logger
}

// SyncAlways is the value of Options.Sync with which every acknowledgement waits for the disk.
const SyncAlways time.Duration = -1

func (o *Options) withDefaults() Options {
	var out Options
	if o != nil {
		out = *o
	}
	if out.Replicas == 0 {
		out.Replicas = 1
	}
	if out.Sync == 0 {
		out.Sync = 2 * time.Minute
	}
	if out.MaxPublication <= 0 {
		out.MaxPublication = 1 << 20
	}
	if out.Window <= 0 {
		out.Window = 4096
	}
	if out.PublishWait == 0 {
		out.PublishWait = 5 * time.Second
	}
	if out.Timeout <= 0 {
		out.Timeout = 5 * time.Second
	}
	if out.Logger == nil {
		out.Logger = slog.New(slog.DiscardHandler)
	}
	return out
}
