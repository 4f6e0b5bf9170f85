package channel

// Start and Level return a cursor's inner state for the law tests, which apply wrong rules to it.
func (c Cursor) Start() uint64 { return c.start }

func (c Cursor) Level() uint64 { return c.level }

// At returns a settled cursor moved to an offset, as a wrong rule would move it.
func (l *Log) At(offset uint64) Cursor {
	c := Cursor{}.set(offset)
	if l.stream != nil {
		c = l.count(c)
	}
	return c
}

// Changes returns the number of changes that the log keeps.
func (l *Log) Changes() int {
	if l.kept == nil {
		return 0
	}
	return len(l.kept.of)
}
