package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// thousands formats a number with commas between groups of three digits.
func thousands[T int | int64 | uint64](n T) string {
	s, first := fmt.Sprint(n), 0
	if n < 0 {
		first = 1 // after the sign
	}
	for i := len(s) - 3; i > first; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// plural formats a number and its noun, in the singular or plural.
func plural[T int | int64 | uint64](n T, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return thousands(n) + " " + many
}

// significant formats a number with three significant digits, but with all digits before the decimal point, at most four after it, and no
// trailing zeros there.
func significant(v float64) string {
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return "0"
	}
	digits := 2 - int(math.Floor(math.Log10(math.Abs(v))))
	if digits <= 0 {
		return thousands(int64(math.Round(v)))
	}
	s := strconv.FormatFloat(v, 'f', min(digits, 4), 64)
	return strings.TrimRight(strings.TrimRight(s, "0"), ".")
}

// milliseconds formats a latency that is given in milliseconds.
func milliseconds(v float64) string {
	if v >= 1000 {
		return significant(v/1000) + " s"
	}
	return significant(v) + " ms"
}

// seconds formats a duration, rounded to 0.1 s, or from a minute on to a second.
func seconds(d time.Duration) string {
	if d >= time.Minute {
		return d.Round(time.Second).String()
	}
	return strconv.FormatFloat(max(d.Seconds(), 0), 'f', 1, 64) + " s"
}

// binary formats a number of bytes with a binary unit.
func binary(n int64) string {
	v, unit := float64(n), ""
	for _, unit = range []string{"B", "KiB", "MiB", "GiB", "TiB"} {
		if math.Abs(v) < 1024 || unit == "TiB" {
			break
		}
		v /= 1024
	}
	return significant(v) + " " + unit
}

// percent formats a fraction as a percentage.
func percent(share float64) string { return significant(math.Round(share*1000)/10) + " %" }
