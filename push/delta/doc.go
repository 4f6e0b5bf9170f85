// Package delta says a value as its difference to an older one, in two formats: Fossil deltas for any bytes, as the published SDKs
// apply them, and JSON merge patches (RFC 7396), which people can read and which any language applies with a page of code.
//
// The package is pure: it starts no goroutine, reads no clock and does no I/O. It does not decide when a difference may be sent at
// all. Whoever gets one must hold exactly the older value, and whether a subscriber does is a question of its cursor; package channel
// answers it, under "When a delta may be sent". What is decided here is only whether a difference can be said, and it is left to the
// caller to compare its length with that of the value and to send the shorter one.
//
// # Fossil deltas
//
// [Encoder.AppendFossil] and [ApplyFossil] speak the format of Fossil's document www/delta_format.wiki, section numbers below. A delta
// is a header, segments and a trailer, of ASCII characters but for the bytes of literals:
//
//	SIZE \n            length of the new value (2.1)
//	COUNT @ OFFSET ,   copies COUNT bytes from OFFSET of the old value (2.3)
//	COUNT : BYTES      brings COUNT bytes along (2.3)
//	SUM ;              checksum of the new value (2.2)
//
// Numbers are of 32 bits, so no value is 4 GiB or longer. They are written to base 64, highest digit first, with the digits 0 to 9,
// A to Z, _, a to z and ~ (3.0). The checksum finds a wrong old value, not an attacker: it is a sum, and who writes a delta writes the
// sum as well.
//
// In two places the document says something else than what the SDKs do, and the SDKs count: the checksum is a sum modulo 2³², and a copy
// of no bytes copies none (2.3.2 has it copy all the rest).
//
// When the new value is valid UTF-8, so is the delta, because segments do not begin or end inside a character. So it may be carried in
// a JSON string, as the SDKs expect it when they speak JSON. The format does not ask for that, and other encoders do not do it.
//
// # Merge patches
//
// [Encoder.AppendMergePatch] and [ApplyMergePatch] compare objects by their members. Not every difference can be said: in a patch null
// means that a member goes, so no member can become null. And an array is always replaced as a whole, so a patch is good for objects
// whose members change, and useless for lists.
package delta
