// Package admission has the limiters that keep a storm of clients from overloading a node: how many sessions and connects it admits, how fast a
// client may send, and how many tokens are checked at once. The gateway, and the program around it, ask them and give the answer to the client.
//
// [Limits] names the limits that may run dry: such a limit is counted and logged, and refuses nothing. [Bucket] is a token bucket, [Ramp] bounds the
// connects of a second, [Users] counts the sessions of each user, and [Gate] bounds what runs at the same time.
//
// Bucket and Ramp are pure: the caller passes the time and keeps calls from overlapping.
package admission
