package admission

// Rate is how many tokens a second a [Bucket] gains, and how many it holds at most. The zero Rate is no bound.
type Rate struct {
	PerSecond int64
	Burst     int64 // at least 1 unless PerSecond is 0
}

// Bucket is a token bucket. The zero Bucket is full. Calls must not overlap.
type Bucket struct {
	debt float64 // the missing tokens, at the time at
	at   int64   // in milliseconds
}

// Has reports whether the bucket has n tokens. now is in milliseconds of any clock; time that runs backwards counts as none.
func (b *Bucket) Has(r Rate, n, now int64) bool {
	if r.PerSecond == 0 {
		return true
	}
	if now > b.at {
		b.debt = max(0, b.debt-float64(now-b.at)*float64(r.PerSecond)/1000)
		b.at = now
	}
	return b.debt+float64(n) <= float64(r.Burst)
}

// Take takes n tokens if the bucket has so many, and reports whether it has.
func (b *Bucket) Take(r Rate, n, now int64) bool {
	if !b.Has(r, n, now) {
		return false
	}
	if r.PerSecond > 0 {
		b.debt += float64(n)
	}
	return true
}

// Spend takes n tokens, also those that the bucket does not have: later calls of Take wait for them.
func (b *Bucket) Spend(n int64) { b.debt += float64(n) }
