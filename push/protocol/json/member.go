package json

import "strconv"

// The encoders write objects member by member: they append '{', then members with the functions below, which add the commas, and then '}'.
// Members that are zero are left out, except where a client needs them.

// appendName appends the name of the next member to an object that is open at the end of dst. The name is a constant that needs no escaping.
func appendName(dst []byte, name string) []byte {
	if dst[len(dst)-1] != '{' { // no value ends in an opening brace
		dst = append(dst, ',')
	}
	dst = append(dst, '"')
	dst = append(dst, name...)
	return append(dst, '"', ':')
}

func appendStringMember(dst []byte, name, value string) []byte {
	if value == "" {
		return dst
	}
	return appendString(appendName(dst, name), value)
}

func appendBoolMember(dst []byte, name string, value bool) []byte {
	if !value {
		return dst
	}
	return append(appendName(dst, name), "true"...)
}

func appendUintMember(dst []byte, name string, value uint64) []byte {
	if value == 0 {
		return dst
	}
	return strconv.AppendUint(appendName(dst, name), value, 10)
}

func appendIntMember(dst []byte, name string, value int64) []byte {
	if value == 0 {
		return dst
	}
	return strconv.AppendInt(appendName(dst, name), value, 10)
}

// appendRawMember appends a JSON value unchanged. It has to be a result of [CompactData].
func appendRawMember(dst []byte, name string, value []byte) []byte {
	if len(value) == 0 {
		return dst
	}
	return append(appendName(dst, name), value...)
}

func appendMapMember(dst []byte, name string, value map[string]string) []byte {
	if len(value) == 0 {
		return dst
	}
	return appendStringMap(appendName(dst, name), value)
}
