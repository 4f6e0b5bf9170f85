// Package thread gives a goroutine a thread to itself, of which others can tell whether it sleeps, and says when its processor is to be offered to
// others.
package thread
