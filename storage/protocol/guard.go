package protocol

// Guard is a part of the protocol without which a law breaks. Guards are a set:
// RowLock|JobFence are two.
type Guard uint32

// The guards. Tests take one out at a time.
const (
	// RowLock is publish's lock on the attempt's row, for which condemn would have to wait.
	RowLock Guard = 1 << iota
	// TokenCheck refuses to publish under a newer token.
	TokenCheck
	// JobFence refuses to publish for a job that went to another attempt, was cancelled or has ended.
	JobFence
	// EndFence keeps an attempt from ending a job that is another's.
	EndFence
	// LateSnapshot means that data are read after the token was drawn.
	LateSnapshot
	// SnapshotCheck refuses a snapshot to an attempt whose token is not the newest.
	SnapshotCheck
	// Condemn means that the clean-up condemns unfinished attempts before it deletes their files.
	Condemn
	// Verdict means that the clean-up asks how an attempt came out, and not only how old it is.
	Verdict
	// HoldCheck means that the clean-up asks for holds when it decides, and not only when it plans.
	HoldCheck
	// PinCheck means the same of pins.
	PinCheck
	// RuleCheck means the same of rules.
	RuleCheck
	// RestoreCheck refuses to bring an export back whose files go.
	RestoreCheck
	// RowCheck refuses to seal or publish an attempt that the database does not know.
	RowCheck
	// CondemnAll means that recovery after a restore condemns all unfinished attempts.
	CondemnAll
	// Raise means that recovery lets tokens go on above every one that has left a trace.
	Raise
	// EpochCheck refuses tokens, publications and clean-ups from a restore until recovery is done.
	EpochCheck
	// Keep means that the clean-up leaves replaced publications alone while a copy of the database is in store.
	Keep
	// Idle means that the clean-up rests from the start of a restore until recovery is done.
	Idle
)

// Guards lists each guard with its name, in the order of their declaration.
func Guards() []NamedGuard {
	return []NamedGuard{
		{RowLock, "RowLock"}, {TokenCheck, "TokenCheck"}, {JobFence, "JobFence"}, {EndFence, "EndFence"},
		{LateSnapshot, "LateSnapshot"}, {SnapshotCheck, "SnapshotCheck"}, {Condemn, "Condemn"}, {Verdict, "Verdict"},
		{HoldCheck, "HoldCheck"}, {PinCheck, "PinCheck"}, {RuleCheck, "RuleCheck"}, {RestoreCheck, "RestoreCheck"},
		{RowCheck, "RowCheck"}, {CondemnAll, "CondemnAll"}, {Raise, "Raise"}, {EpochCheck, "EpochCheck"},
		{Keep, "Keep"}, {Idle, "Idle"},
	}
}

// NamedGuard is a guard and what it is called.
type NamedGuard struct {
	Guard Guard
	Name  string
}
