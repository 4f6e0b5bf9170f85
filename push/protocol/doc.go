// Package protocol is the client protocol: what clients and the server say to each other, as Go values, and the JSON form of
// these. It is pure: bytes in, values out. All functions may be called concurrently, as long as nobody changes what they were
// given.
//
// The protocol is version 2 of the Centrifuge client protocol (https://centrifugal.dev/docs/transports/client_protocol), so that
// its SDKs connect as they are. The values ([Command], [Reply], [Push]) know nothing of JSON; a second form can stand beside it.
//
// # Frames
//
// A client sends commands, the server replies and pushes; each is one JSON object on one line. A frame (a WebSocket message, the
// body of a request, an event) holds one or more of them with '\n' between them; blank lines are passed over. [NextLine] takes a
// frame apart. The encoders write no line end.
//
// # Commands and replies
//
// A command has a number, which its reply repeats, and one member named after the request:
//
//	{"id":1,"connect":{"token":"…","data":…,"subs":{"CHANNEL":{…}},"name":"js","version":"1","headers":{"A":"b"},"flag":0}}
//	{"id":2,"subscribe":{"channel":"quotes:ABC","token":"…","recover":true,"epoch":"xyz","offset":12,"data":…,"positioned":true,
//	                     "recoverable":true,"join_leave":true,"delta":"fossil","flag":1,"type":0,"tf":{…},
//	                     "phase":2,"limit":100,"cursor":"…"}}
//	{"id":3,"unsubscribe":{"channel":"quotes:ABC"}}
//	{"id":4,"publish":{"channel":"quotes:ABC","data":{"bid":1},"key":"ABC","tags":{"venue":"x"},"removed":false}}
//	{"id":5,"presence":{"channel":"chat:1"}}
//	{"id":6,"presence_stats":{"channel":"chat:1"}}
//	{"id":7,"history":{"channel":"chat:1","limit":10,"since":{"offset":12,"epoch":"xyz"},"reverse":true}}
//	{"id":8,"ping":{}}
//	{"id":9,"rpc":{"method":"sum","data":[1,2]}}
//	{"id":10,"refresh":{"token":"…"}}
//	{"id":11,"sub_refresh":{"channel":"quotes:ABC","token":"…"}}
//	{"send":{"data":…}}                                    no number, no reply
//	{}                                                     the client's pong
//
// The reply has a member of the same name with the result, or an error:
//
//	{"id":1,"connect":{"client":"ID","version":"1.0","expires":true,"ttl":60,"data":…,"subs":{"CHANNEL":{…}},"ping":25,"pong":true,
//	                   "session":"…","node":"…"}}
//	{"id":2,"subscribe":{"expires":true,"ttl":60,"recoverable":true,"epoch":"xyz","publications":[…],"recovered":true,"offset":14,
//	                     "positioned":true,"data":…,"was_recovering":true,"delta":true,"id":7,"phase":2,"state":[…],"cursor":"…"}}
//	{"id":3,"unsubscribe":{}}   {"id":4,"publish":{}}   {"id":8,"ping":{}}
//	{"id":5,"presence":{"presence":{"ID":{"user":"42","client":"ID","conn_info":…,"chan_info":…}}}}
//	{"id":6,"presence_stats":{"num_clients":2,"num_users":1}}
//	{"id":7,"history":{"publications":[…],"epoch":"xyz","offset":14}}
//	{"id":9,"rpc":{"data":3}}
//	{"id":10,"refresh":{"client":"ID","version":"1.0","expires":true,"ttl":60}}
//	{"id":11,"sub_refresh":{"expires":true,"ttl":60}}
//	{"id":2,"error":{"code":109,"message":"token expired","temporary":false}}
//	{}                                                     the server's ping
//
// What the server says of its own accord has no number:
//
//	{"push":{"channel":"quotes:ABC","pub":{"data":{"bid":1},"info":{…},"offset":15,"tags":{"venue":"x"},"key":"ABC"}}}
//	{"push":{"id":7,"pub":{"data":{"bid":1},"offset":16}}}                  where the subscription has a number
//	{"push":{"channel":"quotes:ABC","pub":{"data":"8\nE@0,2:1}3x;","offset":17,"delta":true}}}     the difference to the one before
//	{"push":{"channel":"quotes:ABC","pub":{"data":null,"offset":16,"key":"ABC","removed":true}}}
//	{"push":{"channel":"quotes:ABC","pub":{"data":null,"offset":17,"cleared":true}}}
//	{"push":{"channel":"chat:1","join":{"info":{"user":"42","client":"ID"}}}}     leave likewise
//	{"push":{"channel":"chat:1","unsubscribe":{"code":2500,"reason":"insufficient state"}}}
//	{"push":{"channel":"chat:1","subscribe":{…}}}   {"push":{"refresh":{…}}}       as the results
//	{"push":{"message":{"data":…}}}
//	{"push":{"disconnect":{"code":3001,"reason":"shutdown","reconnect":true}}}
//
// A number stands for a channel where the client offered that with bit 1 of the flag of its subscribe request and the answer has one. It
// holds until the subscription ends. This is what SDKs call channel compaction (subscriptionFlags of centrifuge-js 5.8, fields id of
// SubscribeResult and Push in its client protocol).
//
// A client that asked for deltas and was told that it gets them has to look whether a publication is one. With Fossil deltas all data of the
// subscription's publications, in pushes and in the answer, are JSON strings that hold it (see [PushOptions]): so SDKs that speak JSON have it.
//
// # Maps
//
// A client that keeps the rows of a table subscribes with type 1, in steps. It asks for the state, phase 2, page by page: each answer has
// rows and says where the next page begins, the first also the position as of which all is to be read. Then it asks for the stream,
// phase 1, from that position: what has changed meanwhile. The answer that has no phase is the one with which it is subscribed; a server
// may give it with the last page. Then the rows are State, what came after them is Publications, and unlike elsewhere the position is the
// one behind these. A client that comes back asks for the stream at once, with recover; one whose position does not do gets error 112
// and begins anew. This is how centrifuge-js 5.8 has it (_mapSubscribe in its source), whose fields these are.
//
// One-way transports leave out the object around it, and begin with {"connect":{…}}: see [PushOptions].
//
// The members key, removed and cleared of a publication, and key, tags and removed of a publish request, are additions of this
// server: SDKs ignore what they do not know. A publication without offset is a row of a table that is sent over in full; its
// place in the channel is told by the last one. Members that are zero are left out, except where SDKs rely on them.
//
// # What is accepted
//
// The text must be JSON by RFC 8259 in valid UTF-8; half of a surrogate pair written as an escape becomes U+FFFD. Names are
// matched exactly. Unknown members are checked and ignored. null is the same as absence, except for data, where it is a value. Of
// several members with one name the last counts, except for requests, of which the first counts, whatever its name. Numbers
// that count something are integers without fraction and exponent, offsets at most [push.MaxOffset]. How deep values may be
// nested is bounded by [Limits].
//
// [DecodeCommand] tells two kinds of failure apart, and the server must too: a command that can be refused, and a line after
// which the connection has to end.
//
// # Raw values
//
// Data, the info of clients and filters are JSON values that pass through as they are. Decoded ones are borrowed from the text
// and are fit for the encoders. What enters elsewhere (an HTTP request, a file) has to go through [CompactData] first: the
// encoders check nothing, and a line break would tear the line in two.
package protocol

// Version is the version of the Centrifuge client protocol that this package implements.
const Version = 2
