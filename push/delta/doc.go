// Package delta computes and applies the difference between an old and a new value. It has two formats: Fossil deltas for any bytes, as the
// published SDKs apply them, and JSON merge patches (RFC 7396), which people can read and any language can apply with a page of code.
//
// The package is pure: it starts no goroutine, reads no clock and does no I/O. It does not decide whether a difference may be sent. The receiver
// must hold exactly the old value; whether a subscriber does depends on its cursor, and package channel decides that, under "When a delta may be
// sent". The caller compares the length of a difference with that of the value and sends the shorter one.
//
// # Fossil deltas
//
// [Encoder.AppendFossil] and [ApplyFossil] use the format of Fossil's document www/delta_format.wiki; the numbers in parentheses are its
// sections. A delta has a header, segments and a trailer, all in ASCII except for the bytes of literals:
//
//	SIZE \n            length of the new value (2.1)
//	COUNT @ OFFSET ,   a copy: COUNT bytes from OFFSET of the old value (2.3)
//	COUNT : BYTES      a literal: the COUNT bytes that follow (2.3)
//	SUM ;              checksum of the new value (2.2)
//
// Numbers have 32 bits, so a value is shorter than 4 GiB. They are written to base 64, highest digit first, with the digits 0 to 9, A to Z, _, a
// to z and ~ (3.0). The checksum detects a wrong old value, but not an attack: it is a plain sum, and the author of a delta also writes the sum.
//
// In two places the document differs from the SDKs, and this package does as the SDKs do: the checksum is a sum modulo 2³², and a copy of no
// bytes copies none (2.3.2 says that it copies the whole rest).
//
// If the new value is valid UTF-8, so is the delta, because segments do not begin or end inside a character. So the delta fits into a JSON
// string, which the SDKs expect when they use JSON. The format does not require that, and other encoders do not do it.
//
// # Merge patches
//
// [Encoder.AppendMergePatch] and [ApplyMergePatch] compare objects by their members. Some differences have no patch: null in a patch removes a
// member, so a patch cannot set a member to null. A patch always replaces an array as a whole, so it suits objects whose members change, and not
// lists.
package delta
