package nats_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/broker/nats"
)

// A node whose data folder is removed while it runs stops acknowledging: the server writes to deleted files, without an error.
func TestLostFolder(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(dir string) error{
		"all":      os.RemoveAll,
		"moved":    func(dir string) error { return os.Rename(dir, dir+".old") },
		"the mark": func(dir string) error { return os.Remove(filepath.Join(dir, "sluice.json")) },
		"replaced": func(dir string) error {
			return errors.Join(os.Rename(dir, dir+".old"), os.CopyFS(dir, os.DirFS(dir+".old")))
		},
		"a stream": func(dir string) error {
			return os.RemoveAll(filepath.Join(dir, "jetstream", "$G", "streams", "sluice_s_0"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "data")
			text, logger := newLog()
			b := open(t, &nats.Options{Dir: dir, Logger: logger})
			t.Cleanup(func() { _ = b.Close() }) // the error is expected: the end cannot be clean
			openNamespace(t, b, "s", push.Stream, push.History{Size: 100})
			publish := func() (push.Position, error) {
				return b.Publish(t.Context(), "s:a", push.Publication{Data: []byte("1")}, broker.PublishOptions{})
			}
			before, err := publish()
			if err != nil {
				t.Fatal(err)
			}
			testwait.True(t, "the mark says how far the stream is", func() bool { return noted(dir) > 0 })
			if err := lose(dir); err != nil {
				t.Fatal(err)
			}
			testwait.True(t, "a publication is refused", func() bool { _, err = publish(); return err != nil })
			if !strings.Contains(err.Error(), "data folder") {
				t.Errorf("refused: %v", err)
			}
			tries := 0
			testwait.True(t, "50 more are refused, and it was tried to start the server again", func() bool {
				// A stream that was lost alone is made again, in another epoch.
				if at, err := publish(); err == nil && at.Epoch == before.Epoch {
					t.Errorf("acknowledged again at %v", at)
				}
				tries++
				return tries == 50
			})
			if !strings.Contains(text.String(), "data folder lost") {
				t.Errorf("the log says %s", text)
			}
		})
	}
}
