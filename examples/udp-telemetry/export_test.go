package main

// Measurement is a measurement.
type Measurement = measurement

// Parse is parse.
func Parse(datagram []byte) (Measurement, bool) { return parse(datagram) }

// Append is measurement.appendTo.
func Append(m Measurement) []byte { return m.appendTo(nil) }
