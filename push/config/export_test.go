package config

// Nearest is the search for the name that was probably meant.
var Nearest = nearest
