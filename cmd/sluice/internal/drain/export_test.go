package drain

// MostWatchers is how many requests may wait for the end of a node.
const MostWatchers = mostWatchers
