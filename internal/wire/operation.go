package wire

import "github.com/carillon-run/carillon"

// OperationRequest asks for an operation.
type OperationRequest struct {
	Kind   carillon.OperationKind `json:"kind"`
	Filter carillon.JobFilter     `json:"filter,omitzero"`
	Dead   *carillon.DeadFilter   `json:"dead,omitempty"` // with redrive, in place of filter
	// Rate is how many jobs or dead letters a second the operation acts on; 0: as many as it can. Default
	// carillon.DefaultOperationRate.
	Rate        *int `json:"rate,omitempty"`
	KeepRunning bool `json:"keep_running,omitempty"` // with cancel: running runs go on to their end
	DryRun      bool `json:"dry_run,omitempty"`      // only count the jobs or dead letters
}

// OperationAnswer is an operation that has begun, or what a dry run has found.
type OperationAnswer struct {
	carillon.Operation
	DryRun bool `json:"dry_run,omitempty"`
	// AtLeast says that a dry run stopped before it had counted everything.
	AtLeast bool        `json:"at_least,omitempty"`
	Sample  []SampleJob `json:"sample,omitempty"` // some of the jobs that a dry run has found
	// Letters are some of the dead letters that a dry run has found.
	Letters []SampleLetter `json:"letters,omitempty"`
}

// SampleJob is a job that an operation would act on.
type SampleJob struct {
	ID    carillon.JobID    `json:"id"`
	Name  string            `json:"name"`
	Type  string            `json:"type"`
	Owner string            `json:"owner"`
	Queue string            `json:"queue"`
	State carillon.JobState `json:"state"`
}

// SampleLetter is a dead letter that an operation would retry.
type SampleLetter struct {
	ID     carillon.RunID `json:"id"`
	Name   string         `json:"name"`
	Type   string         `json:"type"`
	Owner  string         `json:"owner"`
	Queue  string         `json:"queue"`
	Reason string         `json:"reason"`
}
