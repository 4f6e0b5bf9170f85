package config

import (
	"bytes"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/sluice-push/sluice/internal/filestate"
)

// ReadKeys returns all keys of the API: API.Keys, and the keys that API.KeysFile has now. The error is an [*Error] with all problems of the
// file, or that of opening and reading it. c must be valid.
func (c *Config) ReadKeys() ([]APIKey, error) {
	if c.API.KeysFile == "" {
		return c.API.Keys, nil
	}
	text, err := readText(c.API.KeysFile)
	if err != nil {
		return nil, err
	}
	var keys []APIKey
	r := newReport()
	(&decoder{r, origin{kind: fromFile, name: c.API.KeysFile}}).text("keys", bytes.TrimPrefix(text, byteOrderMark), reflect.ValueOf(&keys).Elem())
	checkKeys(r, "keys", keys, c.API.Keys, c.Namespaces)
	if err := r.err(); err != nil {
		return nil, err
	}
	return slices.Concat(c.API.Keys, keys), nil
}

// keysInterval is how often [Keys] looks whether the file has changed, while it is asked.
const keysInterval = time.Second

// Keys are the keys of the API as they are now. Their methods may be called concurrently.
type Keys struct {
	config *Config
	log    *slog.Logger

	mu    sync.Mutex
	watch *filestate.Watch
	keys  []APIKey // not changed, but replaced
}

// NewKeys reads the keys of a valid configuration, as [Config.ReadKeys] does, and goes on doing so when API.KeysFile changes. The log says when that
// was done, or failed.
func NewKeys(c *Config, log *slog.Logger) (*Keys, error) {
	k := &Keys{config: c, log: log, watch: filestate.NewWatch(keysInterval, c.API.KeysFile)}
	var err error
	k.keys, err = c.ReadKeys()
	return k, err
}

// Now returns the keys as they were a second ago at most. If the file cannot be read, or is not valid, they are as they were before. The caller must
// not change them.
func (k *Keys) Now() []APIKey {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.watch.Changed() {
		return k.keys
	}
	keys, err := k.config.ReadKeys()
	if err != nil {
		k.log.Warn("the file of API keys is not valid, the keys stay as they were", "file", k.config.API.KeysFile, "error", err)
		return k.keys
	}
	k.keys = keys
	k.log.Info("API keys read", "file", k.config.API.KeysFile, "keys", len(keys))
	return k.keys
}
