package nats_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/broker/nats"
	"github.com/sluice-push/sluice/push/pushtest"
)

// ownMounts names the environment variable that tells a test that it runs in a process with its own mount namespace, where it may mount file
// systems unseen by other processes.
const ownMounts = "SLUICE_TEST_OWN_MOUNTS"

// withOwnMounts runs a test again in such a process, and reports whether this is that process.
func withOwnMounts(t *testing.T) bool {
	t.Helper()
	if os.Getenv(ownMounts) != "" {
		return true
	}
	ctx, cancel := context.WithTimeout(t.Context(), pushtest.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), ownMounts+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return false
}

// smallDisk returns the folder of a small file system.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// kept contains the acknowledged publications of a test that fills a disk.
type kept struct {
	t     *testing.T
	b     *nats.Broker
	acked []push.Position
	tried int
}

func (k *kept) publish() error {
	k.tried++
	data := fmt.Sprintf("%d %s", k.tried, strings.Repeat("x", 32<<10))
	at, err := k.b.Publish(k.t.Context(), "s:a", push.Publication{Data: []byte(data)}, broker.PublishOptions{})
	if err == nil {
		k.acked = append(k.acked, at)
	}
	return err
}

// fill publishes until it is refused, as busy.
func (k *kept) fill() error {
	k.t.Helper()
	for range 10_000 {
		if err := k.publish(); errors.Is(err, broker.ErrBusy) {
			return err
		}
	}
	k.t.Fatal("nothing is refused")
	return nil
}

// check checks that all acknowledged publications are there, in one epoch.
func (k *kept) check() {
	k.t.Helper()
	there := make(map[uint64]bool)
	h, err := k.b.Load(k.t.Context(), "s:a", broker.LoadOptions{}, func(p broker.Message) error {
		there[p.Offset] = true
		return nil
	})
	if err != nil {
		k.t.Fatal(err)
	}
	for _, at := range k.acked {
		if at.Epoch != h.Epoch || !there[at.Offset] {
			k.t.Fatalf("published at %v, but that is gone in epoch %q", at, h.Epoch)
		}
	}
}

// TestStoreFull: publications beyond the limit of the server are refused with an error that says what to do, and no stored ones are lost. There
// is room again after the history is shortened.
func TestStoreFull(t *testing.T) {
	t.Parallel()
	b := closing(t, open(t, &nats.Options{Dir: t.TempDir(), MaxStore: 4 << 20}))
	k := &kept{t: t, b: b}
	openNamespace(t, b, "s", push.Stream, push.History{})
	if err := k.fill(); !strings.Contains(err.Error(), "space") {
		t.Errorf("refused with %q", err)
	}
	if !b.Stats().Full {
		t.Error("it does not say that it is full")
	}
	k.check()
	openNamespace(t, b, "s", push.Stream, push.History{Size: 10})
	testwait.True(t, "publish again", func() bool { return k.publish() == nil })
	testwait.True(t, "it says that there is room", func() bool { return !b.Stats().Full })
}

// TestDiskFull: the same if another program fills the disk. When there is space again, the broker continues without a restart.
func TestDiskFull(t *testing.T) {
	if !withOwnMounts(t) {
		return
	}
	disk := smallDisk(t, "48m")
	text, logger := newLog()
	b := closing(t, open(t, &nats.Options{Dir: filepath.Join(disk, "data"), MaxStore: 1 << 40, Timeout: 2 * time.Second, Logger: logger}))
	openNamespace(t, b, "s", push.Stream, push.History{})
	r := follow(t, b, "s")
	k := &kept{t: t, b: b}
	for range 20 {
		if err := k.publish(); err != nil {
			t.Fatal(err)
		}
	}
	filler, err := os.Create(filepath.Join(disk, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = filler.Write(make([]byte, 1<<20))
	}
	if err := filler.Truncate(30 << 20); err != nil { // so that there is a little room
		t.Fatal(err)
	}
	refused := k.fill()
	t.Logf("after %d of %d: %v", len(k.acked), k.tried, refused)
	if !strings.Contains(refused.Error(), "space") {
		t.Errorf("refused with %q", refused)
	}
	if err := errors.Join(filler.Close(), os.Remove(filler.Name())); err != nil {
		t.Fatal(err)
	}
	testwait.True(t, "publish again", func() bool { return k.publish() == nil })
	k.check()
	last := k.acked[len(k.acked)-1]
	r.await(t, "the last publication", func() bool {
		return len(r.messages) > 0 && r.messages[len(r.messages)-1].Offset >= last.Offset
	})
	if len(r.resets) > 0 {
		t.Errorf("new lives began: %v", r.resets)
	}
	t.Log(text.String())
}
