// Package json is the JSON form of the client protocol: it encodes and decodes the values of package protocol. It does no I/O: bytes in, values
// out. All functions may be called concurrently, as long as the caller does not change their arguments meanwhile.
//
// # Frames
//
// A client sends commands, and the server sends replies and pushes. Each is one JSON object on one line. A frame (a WebSocket message, the body
// of a request, an event) holds one or more of them with '\n' between them; blank lines are skipped. [NextLine] splits a frame. The encoders
// write no line end.
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
// Messages that the server sends on its own have no number:
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
// With Fossil deltas the data of all publications of a subscription, in pushes and in the answer, is encoded as JSON strings (see [PushOptions]),
// as SDKs that use JSON expect.
//
// One-way transports leave out the member push and the object around it, and begin with {"connect":{…}}: see [PushOptions].
//
// # What is accepted
//
// The text must be JSON by RFC 8259 in valid UTF-8, and nested no deeper than [Limits] allow. Half of a surrogate pair written as an escape is
// refused like a value of the wrong type. Names are matched exactly. Unknown members are checked and ignored. null equals absence, except for
// data, where it is a value. If several members have the same name, the last counts; of several requests in a command, the first counts,
// whatever its name. Counters are integers without fraction and exponent, offsets at most [push.MaxOffset].
//
// [DecodeCommand] distinguishes two kinds of failure, and so must the server: a command that can be refused, and a line after which the
// connection has to end.
//
// # Raw values
//
// Data, the info of clients and filters are JSON values that pass through unchanged. Decoded ones share the memory of the text, and can be given
// to the encoders. A value from elsewhere (an HTTP request, a file) has to go through [CompactData] first: the encoders check nothing, and a
// line break would split the line in two.
package json
