package executor

import (
	"runtime/debug"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// crowd watches how many processes the command's tree has. The kernel could bound them too, but not for root
// (RLIMIT_NPROC), not for one tree of a user with many, or only where a cgroup may be made.
type crowd struct {
	counted time.Duration // when the tree was counted last
	threads uint16        // of the whole machine at that time
	counts  int
}

// countEvery is how often the supervisor counts the tree while the machine's number of threads is steady.
const countEvery = time.Second

// tooMany says that the tree has more than most processes. A count reads a few files for each process, so it
// is made only if it can find something: the machine has more threads than most, and either their number has
// grown fast or the last count is a while ago.
func (c *crowd) tooMany(most int, now time.Duration) bool {
	var machine unix.Sysinfo_t
	if most == 0 || unix.Sysinfo(&machine) != nil || int(machine.Procs) <= most {
		return false
	}
	grown := int(int16(machine.Procs - c.threads)) // the kernel cuts the number to 16 bits
	if now-c.counted < countEvery && grown <= most/4 {
		return false
	}
	c.counted, c.threads = now, machine.Procs
	if c.counts++; c.counts%64 == 0 {
		debug.FreeOSMemory() // the garbage of the counts: the supervisor collects none by itself
	}
	return treeExceeds(most)
}

// crowded says that the tree has to be killed because it has too many processes. Orphans that have ended do
// not count.
func (s *supervisor) crowded(now time.Duration) bool {
	if s.asked || !s.crowd.tooMany(s.spec.most, now) {
		return false
	}
	s.reap()
	return treeExceeds(s.spec.most)
}

// treeExceeds says whether this process has more than most descendants. It may miss a process whose parent
// ends during the count: the next count finds it. On a kernel without CONFIG_PROC_CHILDREN it sees only the
// children of this process, that is the command and the orphans that it left.
func treeExceeds(most int) bool {
	tree := children()
	for i := 0; i < len(tree) && len(tree) <= most; i++ {
		listed, _ := childrenIn("/proc/" + strconv.Itoa(tree[i]) + "/task/")
		tree = append(tree, listed...)
	}
	return len(tree) > most
}
