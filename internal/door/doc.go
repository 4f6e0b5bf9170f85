// Package door lets an event loop accept connections, as long as that goes well. What to do when it does not is for those who may wait.
package door
