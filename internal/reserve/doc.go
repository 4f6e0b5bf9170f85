// Package reserve keeps a descriptor open for nothing, to be given up when there is no other.
package reserve
