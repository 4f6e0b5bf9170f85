package nats

import (
	"log/slog"
	"time"
)

// Options are the settings of a [Broker]. For every number and duration zero means the default and negative means off, where that is
// possible.
type Options struct {
	// URL of an external server, or several with commas between; a user, a password or a token may be part of it. Empty: a server is
	// embedded in the process, with its data in Dir.
	URL string
	// Credentials is the path of a file with a JWT and a key for the external server, or empty.
	Credentials string
	// Replicas is how many servers of an external cluster keep each durable stream: 1, 3 or 5. It counts when the stream is made.
	// With more than 1, loading may be answered by a server that lags behind the one that acknowledged, and then lacks what was
	// published last; no test runs against a cluster. Default 1.
	Replicas int

	// Dir is the data folder of the embedded server. It is made if it does not exist; one process at a time may use it.
	Dir string
	// Listen is an address on which the embedded server can be reached by NATS clients too, or empty.
	Listen string
	// Token is what clients have to present to the embedded server when it listens; empty: nothing.
	Token string
	// Sync is how often the embedded server makes the disk keep what is in its files, [SyncAlways] before each acknowledgement. Default
	// 2 minutes.
	Sync time.Duration
	// MaxStore is how many bytes the embedded server may use in Dir, beyond which publications are refused. Default: what is free when
	// it starts, less a reserve.
	MaxStore int64

	// MaxPublication is the largest publication stored, in bytes as counted by push.Publication.Size. Default 1 MiB. Whatever it is, a
	// message may not be larger than what an external server takes, nor than 32 MiB less 1 KiB, which is what NATS stores.
	MaxPublication int
	// Window is how many publications to a partition may be under way: sent and not yet acknowledged, or not yet delivered to the
	// followers that are attached here. Default 4096.
	Window int
	// PublishWait is how long Publish waits for room in the window before it answers ErrBusy. Default 5 s; off: it does not wait.
	PublishWait time.Duration
	// Timeout is how long the server may take to answer. Default 5 s.
	Timeout time.Duration

	// Check is given the data of everything that comes from the server, and the JSON in client info, for programs without Sluice may
	// publish, too. It
	// returns what to deliver instead, or an error, and then the publication is left out and logged. It must not change what it is
	// given, and is called by many goroutines. Nil: data is delivered as it is.
	Check func(data []byte) ([]byte, error)
	// Logger is told about lost and found servers, and what cannot be read. Nil: nobody is.
	Logger *slog.Logger
}

// SyncAlways is the value of Options.Sync that makes every acknowledgement wait for the disk.
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
