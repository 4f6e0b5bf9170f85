package main_test

const canSplice = true
