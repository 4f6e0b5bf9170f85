// Package atomicany keeps a value of any type that some goroutines read while others change it.
package atomicany

import "sync/atomic"

// Value holds a value, at first nil. Unlike [atomic.Value] it takes values of different types and nil, and unlike a pointer to an interface it
// takes no memory beside itself for the first value that is not nil, which most keep. All methods may be called concurrently. It must not be
// copied, and refers to the first value as long as it lives.
type Value struct {
	now   atomic.Pointer[any] // nil before the first is kept
	first any                 // written by who has changed now to being
}

// being stands for a first value that is being kept.
var being any

// Load returns the value that was kept last.
func (v *Value) Load() any {
	if now := v.now.Load(); now != nil {
		return *now
	}
	return nil
}

// Store keeps a value.
func (v *Value) Store(next any) {
	switch {
	case next == nil && v.now.Load() == nil:
	case v.now.CompareAndSwap(nil, &being):
		v.first = next
		v.now.CompareAndSwap(&being, &v.first) // unless another was kept meanwhile
	default:
		box := new(any)
		*box = next
		v.now.Store(box)
	}
}
