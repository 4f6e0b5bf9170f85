package channel_test

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/channel"
)

var update = flag.Bool("update", false, "write the scenarios' present output into their files")

// TestScenarios runs testdata/*.txt. A line with a command is followed, indented by a tab, by what it prints. The commands:
//
//	log MODE [size=N] [age=MS] [head=N] [floor=N] [epoch=E]   a new log; cursors of an earlier one are moved over with rebase
//	put OFFSET [KEY] [tag=VALUE] [time=MS]    remove OFFSET KEY    clear OFFSET    gap OFFSET    advance OFFSET
//	expire MS     shrink BYTES     raise FLOOR
//	sub NAME [from=OFFSET] [epoch=E] [tag=VALUE[,VALUE]]      rebase NAME
//	read NAME [n=ENTRIES] [take=TAKEN]        follow NAME     history [since=OFFSET] [before=OFFSET] [n=LIMIT]
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := (&scenario{subs: map[string]*scenarioSub{}}).run(want)
			if *update {
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
			} else if !bytes.Equal(got, want) {
				t.Errorf("the output differs; this is what it is now:\n%s", got)
			}
		})
	}
}

type scenario struct {
	log  *channel.Log
	last *channel.Entry
	subs map[string]*scenarioSub
	out  bytes.Buffer
}

type scenarioSub struct {
	view   *channel.View
	cursor channel.Cursor
}

func (s *scenario) run(script []byte) []byte {
	for lines := bufio.NewScanner(bytes.NewReader(script)); lines.Scan(); {
		line := lines.Text()
		if strings.HasPrefix(line, "\t") {
			continue
		}
		fmt.Fprintln(&s.out, line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		s.command(parseArgs(line))
	}
	return s.out.Bytes()
}

func (s *scenario) printf(format string, args ...any) { fmt.Fprintf(&s.out, "\t"+format+"\n", args...) }

// args are a command's words; those with an = are named.
type args struct {
	words []string
	named map[string]string
}

func parseArgs(line string) args {
	a := args{named: map[string]string{}}
	for _, w := range strings.Fields(line) {
		if k, v, ok := strings.Cut(w, "="); ok {
			a.named[k] = v
		} else {
			a.words = append(a.words, w)
		}
	}
	return a
}

func (a args) word(i int) string {
	if i < len(a.words) {
		return a.words[i]
	}
	return ""
}

func (a args) num(i int) uint64 {
	n, _ := strconv.ParseUint(a.word(i), 10, 64)
	return n
}

func (a args) option(name string, otherwise int) int {
	if n, err := strconv.Atoi(a.named[name]); err == nil {
		return n
	}
	return otherwise
}

func (s *scenario) command(a args) {
	switch a.word(0) {
	case "log":
		s.newLog(a)
	case "put", "remove", "clear":
		s.append(a)
	case "gap":
		s.printf("goes on: %t", s.log.Gap(a.num(1)))
		s.state()
	case "advance":
		s.log.Advance(a.num(1))
		s.state()
	case "expire":
		s.printf("evicted %d", s.log.Expire(int64(a.num(1))))
		s.state()
	case "shrink":
		s.printf("evicted %d", s.log.Shrink(int64(a.num(1))))
		s.state()
	case "raise":
		s.log.RaiseFloor(a.num(1))
		s.state()
	case "sub":
		s.subscribe(a)
	case "rebase":
		sub := s.subs[a.word(1)]
		sub.cursor = s.log.Rebase(sub.cursor)
	case "read":
		s.read(a)
	case "follow":
		s.follow(a)
	case "history":
		s.history(a)
	default:
		s.printf("unknown command")
	}
}

func (s *scenario) state() {
	s.printf("head %d floor %d entries %d", s.log.Head(), s.log.Floor(), s.log.Len())
}

func (s *scenario) newLog(a args) {
	var mode push.Mode
	if err := mode.UnmarshalText([]byte(a.word(1))); err != nil {
		s.printf("%v", err)
		return
	}
	history := push.History{Size: a.option("size", 0), Age: time.Duration(a.option("age", 0)) * time.Millisecond}
	epoch := a.named["epoch"]
	if epoch == "" {
		epoch = "e"
	}
	start := push.Position{Epoch: epoch, Offset: uint64(a.option("head", 0))}
	s.log = channel.New(&channel.Policy{Mode: mode, History: history}, start, uint64(a.option("floor", 0)))
}

func (s *scenario) append(a args) {
	p := push.Publication{Offset: a.num(1), Key: a.word(2), Time: int64(a.option("time", 0))}
	switch a.word(0) {
	case "put":
		p.Data = []byte(a.word(1))
	case "remove":
		p.Op = push.Remove
	case "clear":
		p.Op = push.Clear
	}
	if tag, ok := a.named["tag"]; ok {
		p.Tags = map[string]string{"t": tag}
	}
	e := s.log.Append(p)
	if e == nil {
		s.printf("known already")
		return
	}
	s.last = e
	s.printf("ordinal %d after %d prev %d retag %d; head %d floor %d entries %d",
		e.Ordinal, e.After, e.Prev, e.Retag, s.log.Head(), s.log.Floor(), s.log.Len())
}

func (s *scenario) subscribe(a args) {
	sub := &scenarioSub{}
	if values, ok := a.named["tag"]; ok {
		sub.view = &channel.View{Filter: []channel.Term{{Tag: "t", Values: strings.Split(values, ",")}}}
	}
	var since *push.Position
	if from, ok := a.named["from"]; ok {
		offset, _ := strconv.ParseUint(from, 10, 64)
		since = &push.Position{Epoch: sub.view.Epoch("e"), Offset: offset}
		if epoch, ok := a.named["epoch"]; ok {
			since.Epoch = epoch
		}
	}
	var outcome channel.Outcome
	sub.cursor, outcome = s.log.Subscribe(since, sub.view)
	s.subs[a.word(1)] = sub
	s.printf("%s at %d", [...]string{"fresh", "resumed", "ahead"}[outcome], sub.cursor.Offset())
}

func (s *scenario) show(d channel.Delivery) {
	kind := [...]string{"put", "gone", "clear", "lost", "skip"}[d.Kind]
	switch {
	case d.Entry == nil && d.Kind == channel.Lost:
		s.printf("%s %d, position %d", kind, d.Lost, d.Offset)
	case d.Entry == nil:
		s.printf("%s, position %d", kind, d.Offset)
	case d.Delta:
		s.printf("%s %q entry %d as delta to %d, position %d", kind, d.Entry.Key, d.Entry.Offset, d.Entry.Prev, d.Offset)
	default:
		s.printf("%s %q entry %d, position %d", kind, d.Entry.Key, d.Entry.Offset, d.Offset)
	}
}

func (s *scenario) read(a args) {
	sub := s.subs[a.word(1)]
	ds, end, status := s.log.Read(sub.cursor, sub.view, channel.Budget{Entries: a.option("n", 100), Bytes: 1 << 20}, nil)
	for _, d := range ds {
		s.show(d)
	}
	taken := a.option("take", len(ds))
	sub.cursor = channel.Commit(sub.cursor, ds, end, taken)
	s.printf("%s; taken %d, cursor %d level %d", [...]string{"up to date", "more", "too slow"}[status], taken, sub.cursor.Offset(), sub.cursor.Level())
}

func (s *scenario) follow(a args) {
	sub := s.subs[a.word(1)]
	d, ok := s.log.ReadNext(sub.cursor, sub.view, s.last)
	if !ok {
		s.printf("not right behind")
		return
	}
	s.show(d)
	sub.cursor = d.Next
}

func (s *scenario) history(a args) {
	var entries []*channel.Entry
	if _, ok := a.named["before"]; ok {
		entries = s.log.Before(uint64(a.option("before", 0)), a.option("n", -1))
	} else {
		entries = s.log.Since(uint64(a.option("since", 0)), a.option("n", -1))
	}
	var offsets []string
	for _, e := range entries {
		offsets = append(offsets, strconv.FormatUint(e.Offset, 10))
	}
	s.printf("[%s] of %d kept", strings.Join(offsets, " "), len(slices.Collect(s.log.Entries())))
}
