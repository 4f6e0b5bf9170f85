package protobuf

// The types of values on the wire (https://protobuf.dev/programming-guides/encoding/#structure).
const (
	varint     = 0 // an integer
	fixed64    = 1 // 8 bytes
	length     = 2 // a length, and that many bytes: a string, bytes or a message
	startGroup = 3
	endGroup   = 4
	fixed32    = 5 // 4 bytes

	typeBits = 7 // of a tag; the other bits are the number of the field
)

// The tags of all fields, by message: the number of the field and the type of its value. They are those of client.proto. A field whose value has
// another type on the wire counts as unknown, as in generated code.
const (
	sendCommandsRequestSession  = 1<<3 | length
	sendCommandsRequestNode     = 2<<3 | length
	sendCommandsRequestCommands = 3<<3 | length

	emulationRequestNode    = 1<<3 | length
	emulationRequestSession = 2<<3 | length
	emulationRequestData    = 3<<3 | length

	errorCode      = 1<<3 | varint
	errorMessage   = 2<<3 | length
	errorTemporary = 3<<3 | varint

	commandID            = 1<<3 | varint
	commandConnect       = 4<<3 | length
	commandSubscribe     = 5<<3 | length
	commandUnsubscribe   = 6<<3 | length
	commandPublish       = 7<<3 | length
	commandPresence      = 8<<3 | length
	commandPresenceStats = 9<<3 | length
	commandHistory       = 10<<3 | length
	commandPing          = 11<<3 | length
	commandSend          = 12<<3 | length
	commandRPC           = 13<<3 | length
	commandRefresh       = 14<<3 | length
	commandSubRefresh    = 15<<3 | length

	replyID            = 1<<3 | varint
	replyError         = 2<<3 | length
	replyPush          = 4<<3 | length
	replyConnect       = 5<<3 | length
	replySubscribe     = 6<<3 | length
	replyUnsubscribe   = 7<<3 | length
	replyPublish       = 8<<3 | length
	replyPresence      = 9<<3 | length
	replyPresenceStats = 10<<3 | length
	replyHistory       = 11<<3 | length
	replyPing          = 12<<3 | length
	replyRPC           = 13<<3 | length
	replyRefresh       = 14<<3 | length
	replySubRefresh    = 15<<3 | length

	pushID          = 1<<3 | varint
	pushChannel     = 2<<3 | length
	pushPub         = 4<<3 | length
	pushJoin        = 5<<3 | length
	pushLeave       = 6<<3 | length
	pushUnsubscribe = 7<<3 | length
	pushMessage     = 8<<3 | length
	pushSubscribe   = 9<<3 | length
	pushConnect     = 10<<3 | length
	pushDisconnect  = 11<<3 | length
	pushRefresh     = 12<<3 | length

	clientInfoUser     = 1<<3 | length
	clientInfoClient   = 2<<3 | length
	clientInfoConnInfo = 3<<3 | length
	clientInfoChanInfo = 4<<3 | length

	publicationData    = 4<<3 | length
	publicationInfo    = 5<<3 | length
	publicationOffset  = 6<<3 | varint
	publicationTags    = 7<<3 | length
	publicationDelta   = 8<<3 | varint
	publicationKey     = 11<<3 | length
	publicationRemoved = 12<<3 | varint
	publicationCleared = 1000<<3 | varint

	joinInfo = 1<<3 | length // and of Leave

	unsubscribeCode   = 2<<3 | varint
	unsubscribeReason = 3<<3 | length

	subscribeRecoverable = 1<<3 | varint
	subscribeEpoch       = 4<<3 | length
	subscribeOffset      = 5<<3 | varint
	subscribePositioned  = 6<<3 | varint
	subscribeData        = 7<<3 | length

	messageData = 1<<3 | length

	connectClient  = 1<<3 | length
	connectVersion = 2<<3 | length
	connectData    = 3<<3 | length
	connectSubs    = 4<<3 | length
	connectExpires = 5<<3 | varint
	connectTTL     = 6<<3 | varint
	connectPing    = 7<<3 | varint
	connectPong    = 8<<3 | varint
	connectSession = 9<<3 | length
	connectNode    = 10<<3 | length

	disconnectCode      = 1<<3 | varint
	disconnectReason    = 2<<3 | length
	disconnectReconnect = 3<<3 | varint

	refreshExpires = 1<<3 | varint
	refreshTTL     = 2<<3 | varint

	connectRequestToken   = 1<<3 | length
	connectRequestData    = 2<<3 | length
	connectRequestSubs    = 3<<3 | length
	connectRequestName    = 4<<3 | length
	connectRequestVersion = 5<<3 | length
	connectRequestHeaders = 6<<3 | length
	connectRequestFlag    = 7<<3 | varint

	connectResultClient  = 1<<3 | length
	connectResultVersion = 2<<3 | length
	connectResultExpires = 3<<3 | varint
	connectResultTTL     = 4<<3 | varint
	connectResultData    = 5<<3 | length
	connectResultSubs    = 6<<3 | length
	connectResultPing    = 7<<3 | varint
	connectResultPong    = 8<<3 | varint
	connectResultSession = 9<<3 | length
	connectResultNode    = 10<<3 | length

	refreshRequestToken = 1<<3 | length

	refreshResultClient  = 1<<3 | length
	refreshResultVersion = 2<<3 | length
	refreshResultExpires = 3<<3 | varint
	refreshResultTTL     = 4<<3 | varint

	subscribeRequestChannel     = 1<<3 | length
	subscribeRequestToken       = 2<<3 | length
	subscribeRequestRecover     = 3<<3 | varint
	subscribeRequestEpoch       = 6<<3 | length
	subscribeRequestOffset      = 7<<3 | varint
	subscribeRequestData        = 8<<3 | length
	subscribeRequestPositioned  = 9<<3 | varint
	subscribeRequestRecoverable = 10<<3 | varint
	subscribeRequestJoinLeave   = 11<<3 | varint
	subscribeRequestDelta       = 12<<3 | length
	subscribeRequestTf          = 13<<3 | length
	subscribeRequestFlag        = 14<<3 | varint
	subscribeRequestType        = 15<<3 | varint
	subscribeRequestPhase       = 16<<3 | varint
	subscribeRequestCursor      = 17<<3 | length
	subscribeRequestLimit       = 18<<3 | varint

	subscribeResultExpires       = 1<<3 | varint
	subscribeResultTTL           = 2<<3 | varint
	subscribeResultRecoverable   = 3<<3 | varint
	subscribeResultEpoch         = 6<<3 | length
	subscribeResultPublications  = 7<<3 | length
	subscribeResultRecovered     = 8<<3 | varint
	subscribeResultOffset        = 9<<3 | varint
	subscribeResultPositioned    = 10<<3 | varint
	subscribeResultData          = 11<<3 | length
	subscribeResultWasRecovering = 12<<3 | varint
	subscribeResultDelta         = 13<<3 | varint
	subscribeResultID            = 14<<3 | varint
	subscribeResultPhase         = 16<<3 | varint
	subscribeResultCursor        = 17<<3 | length
	subscribeResultState         = 18<<3 | length

	subRefreshRequestChannel = 1<<3 | length
	subRefreshRequestToken   = 2<<3 | length

	subRefreshResultExpires = 1<<3 | varint
	subRefreshResultTTL     = 2<<3 | varint

	unsubscribeRequestChannel = 1<<3 | length

	publishRequestChannel = 1<<3 | length
	publishRequestData    = 2<<3 | length
	publishRequestType    = 3<<3 | varint
	publishRequestKey     = 4<<3 | length
	publishRequestRemoved = 5<<3 | varint
	publishRequestTags    = 1000<<3 | length

	presenceRequestChannel = 1<<3 | length

	presenceResultPresence = 1<<3 | length

	presenceStatsRequestChannel = 1<<3 | length

	presenceStatsResultNumClients = 1<<3 | varint
	presenceStatsResultNumUsers   = 2<<3 | varint

	streamPositionOffset = 1<<3 | varint
	streamPositionEpoch  = 2<<3 | length

	historyRequestChannel = 1<<3 | length
	historyRequestLimit   = 7<<3 | varint
	historyRequestSince   = 8<<3 | length
	historyRequestReverse = 9<<3 | varint

	historyResultPublications = 1<<3 | length
	historyResultEpoch        = 2<<3 | length
	historyResultOffset       = 3<<3 | varint

	rpcRequestData   = 1<<3 | length
	rpcRequestMethod = 2<<3 | length

	rpcResultData = 1<<3 | length

	sendRequestData = 1<<3 | length

	filterNodeOp    = 1<<3 | length
	filterNodeKey   = 2<<3 | length
	filterNodeCmp   = 3<<3 | length
	filterNodeVal   = 4<<3 | length
	filterNodeVals  = 5<<3 | length
	filterNodeNodes = 6<<3 | length
)

// The two fields of an entry of a map, of which the value is a string or a message.
const (
	entryKey   = 1<<3 | length
	entryValue = 2<<3 | length
)
