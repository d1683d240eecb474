package owned

import "syscall"

// HideProcess keeps other processes of the same user from reading this one's environment and memory, which
// can hold the token and the password of the database. Root still can. The process dumps no core any more and
// cannot be traced.
func HideProcess() error {
	if _, _, errno := syscall.Syscall(syscall.SYS_PRCTL, syscall.PR_SET_DUMPABLE, 0, 0); errno != 0 {
		return errno
	}
	return nil
}
