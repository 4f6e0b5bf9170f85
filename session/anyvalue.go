package session

import "sync/atomic"

// anyValue holds a value of any type that some goroutines read while others change it. It is nil at first. Unlike [atomic.Value] it takes values
// of different types, and nil. Unlike an atomic pointer to an interface it allocates nothing for the first value that is not nil, and most
// sessions keep that one. All methods may be called concurrently. An anyValue must not be copied, and refers to the first value as long as it
// lives.
type anyValue struct {
	now   atomic.Pointer[any] // nil before the first Store
	first any                 // written by the goroutine that has changed now to storing
}

// storing stands for a first value that is being stored.
var storing any

// Load returns the value that was stored last.
func (v *anyValue) Load() any {
	if now := v.now.Load(); now != nil {
		return *now
	}
	return nil
}

// Store stores a value.
func (v *anyValue) Store(next any) {
	switch {
	case next == nil && v.now.Load() == nil:
	case v.now.CompareAndSwap(nil, &storing):
		v.first = next
		v.now.CompareAndSwap(&storing, &v.first) // unless another value has been stored meanwhile
	default:
		box := new(any)
		*box = next
		v.now.Store(box)
	}
}
