package main

import (
	"math"
	"regexp"
	"strconv"
)

// measurement is what a datagram says.
type measurement struct {
	Name    string
	Number  uint64
	Degrees float64
}

// form is that of a datagram. What is in no other form never gets to a terminal.
var form = regexp.MustCompile(`^([A-Za-z0-9._-]{1,32}) ([0-9]{1,20}) (-?[0-9]{1,4}(?:\.[0-9]{1,6})?)\n?$`)

// parse reads a datagram. It keeps nothing of it.
func parse(datagram []byte) (m measurement, ok bool) {
	parts := form.FindSubmatch(datagram)
	if parts == nil {
		return measurement{}, false
	}
	number, err := strconv.ParseUint(string(parts[2]), 10, 64)
	if err != nil {
		return measurement{}, false // more than 64 bits
	}
	degrees, err := strconv.ParseFloat(string(parts[3]), 64)
	return measurement{Name: string(parts[1]), Number: number, Degrees: degrees}, err == nil
}

// appendTo appends the measurement as a datagram has it.
func (m measurement) appendTo(dst []byte) []byte {
	dst = append(dst, m.Name...)
	dst = strconv.AppendUint(append(dst, ' '), m.Number, 10)
	return strconv.AppendFloat(append(dst, ' '), math.Round(m.Degrees*10)/10, 'f', 1, 64)
}
