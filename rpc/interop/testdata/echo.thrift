// The service of the tests with Apache Thrift for Python and Node. The generated code is committed, so that tests need no compiler. Debian's
// thrift-compiler 0.17.0 made it, in this folder:
//
//	mkdir -p node/echo
//	thrift -out . --gen go:package_prefix=github.com/sluice-push/sluice/rpc/interop/testdata/ echo.thrift
//	thrift -out python --gen py echo.thrift
//	thrift -out node/echo --gen js:node,es6 echo.thrift
//	rm -r echo/*-remote python/echo/*-remote python/__init__.py

namespace go echo
namespace py echo

exception Failure {
  1: string why
}

service Echo {
  // Returns its argument.
  string Echo(1: string text)
  // Throws a Failure with its argument. If that is empty, the error is one that is not declared here.
  string Fail(1: string text) throws (1: Failure failure)
  // Notes its argument.
  oneway void Tell(1: string text)
  // Returns how often Tell was called with the argument.
  i32 Told(1: string text)
  // Returns the value that the header of the call has for a key, or nothing.
  string Header(1: string key)
}

// What clients have. No server has the method.
service Newer extends Echo {
  string Nothing(1: string text)
}
