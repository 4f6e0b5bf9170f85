package transport

// ParseProxy is parseProxy.
var ParseProxy = parseProxy
