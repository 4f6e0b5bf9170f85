package nats_test

func isChild() bool { return false }

func runChild() int { return 0 }
