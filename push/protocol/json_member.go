package protocol

import "strconv"

// The encoders write objects member by member: each opens with '{', appends members with the helpers below, which put the commas,
// and closes with '}'. Members that are zero are left out, except where a client relies on them.

// appendName appends the name of the next member of the object that dst ends in. The name is a constant that needs no escaping.
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

// appendRawMember copies a JSON value through; see [CompactData] for what it has to be.
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
