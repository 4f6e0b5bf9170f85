package config

// Nearest returns the name that was probably meant.
var Nearest = nearest
