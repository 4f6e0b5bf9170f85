package thread

// Asleep reports whether a thread waits for something else than a processor.
func Asleep(number int) bool { return asleep(number) }
