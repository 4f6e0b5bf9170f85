package main

// Run is the command line.
var Run = run
