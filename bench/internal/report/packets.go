package report

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// DroppedPackets returns how many packets this machine has dropped since it was started because a processor's queue of arrivals was full
// (net.core.netdev_max_backlog), or 0 where that cannot be read. The loopback goes through these queues too: when thousands of connections have
// their turns at once it drops some, and the connection that has lost one waits for a fifth of a second until it sends again.
func DroppedPackets() uint64 {
	text, err := os.ReadFile("/proc/net/softnet_stat")
	if err != nil {
		return 0
	}
	return dropped(string(text))
}

// dropped adds the second number of each line, one for each processor, which are hexadecimal: net/core/net-procfs.c of Linux.
func dropped(softnet string) (n uint64) {
	for line := range strings.Lines(softnet) {
		if fields := strings.Fields(line); len(fields) > 1 {
			if v, err := strconv.ParseUint(fields[1], 16, 64); err == nil {
				n += v
			}
		}
	}
	return n
}

// OfDropped is what a table says of n packets that were dropped while it was measured.
func OfDropped(n uint64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" The kernel dropped %d packets for want of room in its queues (net.core.netdev_max_backlog), which shows in max.", n)
}
