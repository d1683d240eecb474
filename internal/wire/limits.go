package wire

// The limits of one message. A worker with more to say sends another message.
const (
	MaxPull    = 1000   // tasks in the answer to a pull
	MaxReports = 10_000 // in one message
	MaxBody    = 16 << 20
)
