package thread

// Asleep reports whether a thread waits for something else than a processor.
func Asleep(number int, guess bool) bool { return asleep(number, guess) }
