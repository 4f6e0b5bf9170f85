package main

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/sluice-push/sluice/internal/filestate"
	"github.com/sluice-push/sluice/push/auth"
)

// keysInterval is how often is looked whether files with keys of tokens have changed, while tokens come.
const keysInterval = time.Second

// fileKeys are keys of tokens from files, which are read again when they change. If they cannot be read then, or are not valid, the keys stay as they
// were.
type fileKeys struct {
	setting string
	log     *slog.Logger
	read    func() (auth.Keys, error)

	mu    sync.Mutex
	watch *filestate.Watch
	keys  auth.Keys
}

// newFileKeys returns the keys that read finds in files. Every is the shortest time between two looks at the files.
func newFileKeys(setting string, every time.Duration, log *slog.Logger, read func() (auth.Keys, error), files ...string) (*fileKeys, error) {
	k := &fileKeys{setting: setting, log: log, read: read, watch: filestate.NewWatch(every, files...)}
	var err error
	k.keys, err = read()
	return k, err
}

// Find implements [auth.Keys].
func (k *fileKeys) Find(ctx context.Context, algorithm, kid string) ([]any, error) {
	return k.current().Find(ctx, algorithm, kid)
}

func (k *fileKeys) current() auth.Keys {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.watch.Changed() {
		return k.keys
	}
	keys, err := k.read()
	if err != nil {
		k.log.Warn("the keys of tokens cannot be read again, they stay as they were", "setting", k.setting, "error", err)
		return k.keys
	}
	k.keys = keys
	k.log.Info("keys of tokens read again", "setting", k.setting)
	return keys
}
