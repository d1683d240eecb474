package proxy

import "time"

// Fault is what a link does to its connections. The zero value is a healthy link.
type Fault struct {
	ToServer Way // what clients send
	ToClient Way // what the server answers
	Dial     Dial
	// LoseEvery loses every n-th answer, counted over all connections since the fault began; 0: none. The
	// server has got the request and has answered it. The proxy throws the answer away and resets the
	// connection.
	LoseEvery int
	// Reset resets the connections that exist when the fault begins.
	Reset bool
}

// Way is what happens to the bytes of one direction.
type Way struct {
	Loss  Loss
	Delay time.Duration // how much later bytes arrive
	Rate  int           // bytes per second; 0: as fast as they come
}

// Loss says whether bytes arrive.
type Loss int

const (
	LossNone Loss = iota
	// LossDrop lets bytes and ends of connections vanish; the connection stays open. No TCP connection can
	// go on with a hole in it. So a connection that has lost something is reset when bytes pass again.
	LossDrop
	// LossHold keeps bytes back, and delivers them when they pass again, as after a cut that was shorter than
	// TCP's patience.
	LossHold
)

// Dial says what happens to new connections.
type Dial int

const (
	DialPass   Dial = iota
	DialRefuse      // they are reset at once
	DialHang        // they get no answer until the fault is over
)

// The usual faults.
var (
	// Cut is a cable that was pulled: nothing arrives, and no connection learns of it.
	Cut = Fault{ToServer: Way{Loss: LossDrop}, ToClient: Way{Loss: LossDrop}, Dial: DialHang}
	// Pause is a cut after which everything arrives, late.
	Pause = Fault{ToServer: Way{Loss: LossHold}, ToClient: Way{Loss: LossHold}, Dial: DialHang}
	// Closed is a server that is gone: its connections are reset and new ones refused.
	Closed = Fault{Dial: DialRefuse, Reset: true}
	// NoRequests loses what clients send, and NoAnswers what the server answers; the other direction passes.
	NoRequests = Fault{ToServer: Way{Loss: LossDrop}}
	NoAnswers  = Fault{ToClient: Way{Loss: LossDrop}}
	// Resets resets the connections once.
	Resets = Fault{Reset: true}
)

// Late delays each direction by d.
func Late(d time.Duration) Fault { return Fault{ToServer: Way{Delay: d}, ToClient: Way{Delay: d}} }

// Slow lets only so many bytes per second pass in each direction.
func Slow(rate int) Fault { return Fault{ToServer: Way{Rate: rate}, ToClient: Way{Rate: rate}} }

// LostAnswers loses every n-th answer after the server has done what it was asked for.
func LostAnswers(every int) Fault { return Fault{LoseEvery: every} }
