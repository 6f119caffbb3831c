package web

// What the audit log tells of. Each is written by who does it, with [Server.audit];
// auditWords says it to people.
const (
	auditAsked          = "job.asked"
	auditAskedMany      = "job.asked_many"
	auditAskedChain     = "job.asked_chain"
	auditCancelled      = "job.cancelled"
	auditRetried        = "job.retried"
	auditForgot         = "job.forgot"
	auditBatchAsked     = "batch.asked"
	auditBatchRetried   = "batch.retried"
	auditBatchCancelled = "batch.cancelled"
	auditInvoiceIssued  = "invoice.issued"
	auditSeriesMade     = "series.made" // by the command line, as are the following
	auditQueueCleared   = "queue.cleared"
	auditRestarted      = "workers.restarted"
	auditRecovered      = "recovery.run"
	auditKeysRotated    = "keys.rotated"
	auditJobsPruned     = "jobs.pruned"
	auditSigninLinked   = "signin.linked"
	auditAuditPruned    = "audit.pruned" // by the scheduler

	auditDownloaded  = "export.downloaded"
	auditDeleted     = "export.deleted"
	auditRestored    = "export.restored"
	auditExpired     = "export.expired"
	auditPinned      = "export.pinned"
	auditUnpinned    = "export.unpinned"
	auditHeld        = "export.held"
	auditReleased    = "export.released"
	auditLinked      = "link.made"
	auditLinkUsed    = "link.used"
	auditLinkRevoked = "link.revoked"

	auditQueuePaused      = "queue.paused"
	auditQueueResumed     = "queue.resumed"
	auditMaintenanceBegun = "maintenance.begun"
	auditMaintenanceEnded = "maintenance.ended"
	auditLimitChanged     = "limit.changed"
	auditScheduleSaved    = "schedule.saved"
	auditScheduleDeleted  = "schedule.deleted"
	auditSchedulePaused   = "schedule.paused"
	auditScheduleResumed  = "schedule.resumed"
	auditScheduleRun      = "schedule.run"
	auditSweepRun         = "sweep.run"
	auditSweepOff         = "sweep.off"
	auditSweepOn          = "sweep.on"
	auditTargetAdded      = "target.added"
	auditTargetRemoved    = "target.removed"
	auditTargetEnabled    = "target.enabled"
	auditTargetDisabled   = "target.disabled"
	auditTargetRotated    = "target.rotated"
	auditTargetTested     = "target.tested"
	auditDeliveryReplayed = "delivery.replayed"
	auditSignedIn         = "session.begun"
	auditSigninRefused    = "session.refused"
	auditSignedOut        = "session.ended"
	auditSessionRevoked   = "session.revoked"
	auditUserAdded        = "user.added"
	auditUserChanged      = "user.changed"
	auditUserDisabled     = "user.disabled"
	auditUserEnabled      = "user.enabled"
	auditUserRemoved      = "user.removed"
	auditPasswordSet      = "user.password_set"
	auditTokenMade        = "token.made"
	auditTokenRevoked     = "token.revoked"
	auditTenantChanged    = "tenant.changed"
	auditSettingsChanged  = "settings.changed"
	auditRetentionChanged = "retention.changed"
	auditAuditLogDownload = "audit.downloaded"
)

// auditWord is an action in words, to be read after the actor: "Nadia downloaded a file of …".
type auditWord struct{ Action, Words string }

// auditWords are all actions, in the order in which a person chooses among them.
func auditWords() []auditWord {
	return []auditWord{
		{auditAsked, "asked for"}, {auditAskedMany, "asked for many jobs"}, {auditAskedChain, "asked for a chain"},
		{auditBatchAsked, "asked for a batch"}, {auditInvoiceIssued, "issued an invoice"}, {auditSeriesMade, "began a series of invoices"},
		{auditDownloaded, "downloaded"}, {auditLinked, "made a link"}, {auditLinkUsed, "downloaded through a link"}, {auditLinkRevoked, "revoked a link"},
		{auditCancelled, "cancelled"}, {auditRetried, "retried"}, {auditForgot, "forgot"},
		{auditBatchRetried, "retried what failed of a batch"}, {auditBatchCancelled, "cancelled a batch"},
		{auditDeleted, "deleted"}, {auditRestored, "restored"}, {auditExpired, "let expire"}, {auditPinned, "pinned"}, {auditUnpinned, "unpinned"},
		{auditHeld, "put on hold"}, {auditReleased, "took off hold"},
		{auditQueuePaused, "paused a queue"}, {auditQueueResumed, "resumed a queue"}, {auditQueueCleared, "cleared a queue"}, {auditRestarted, "restarted the workers"}, {auditRecovered, "ran a recovery"},
		{auditKeysRotated, "sealed values again with a key"}, {auditJobsPruned, "pruned old jobs"}, {auditSigninLinked, "made a sign-in link"}, {auditAuditPruned, "pruned the audit log"},
		{auditMaintenanceBegun, "began maintenance"}, {auditMaintenanceEnded, "ended maintenance"}, {auditLimitChanged, "changed a limit"},
		{auditScheduleSaved, "saved a schedule"}, {auditScheduleDeleted, "deleted a schedule"}, {auditSchedulePaused, "paused a schedule"},
		{auditScheduleResumed, "resumed a schedule"}, {auditScheduleRun, "ran a schedule by hand"}, {auditSweepRun, "ran the clean-up"},
		{auditSweepOff, "switched clean-ups off"}, {auditSweepOn, "switched clean-ups on"},
		{auditTargetAdded, "added a target"}, {auditTargetRemoved, "removed a target"}, {auditTargetEnabled, "enabled a target"},
		{auditTargetDisabled, "disabled a target"}, {auditTargetRotated, "gave a target a new secret"}, {auditTargetTested, "tested a target"},
		{auditDeliveryReplayed, "sent deliveries again"},
		{auditSignedIn, "signed in"}, {auditSigninRefused, "was refused to sign in"}, {auditSignedOut, "signed out"}, {auditSessionRevoked, "ended a session"},
		{auditUserAdded, "added a user"}, {auditUserChanged, "changed a user"}, {auditUserDisabled, "disabled a user"}, {auditUserEnabled, "enabled a user"}, {auditUserRemoved, "removed a user"},
		{auditPasswordSet, "set a password"}, {auditTokenMade, "made an API token"}, {auditTokenRevoked, "revoked an API token"},
		{auditTenantChanged, "changed a tenant"}, {auditSettingsChanged, "changed settings"}, {auditRetentionChanged, "changed how long things are kept"},
		{auditAuditLogDownload, "downloaded the audit log"},
	}
}

// inWords says an action to people; one that is not known as it is written.
func inWords(action string) string {
	for _, w := range auditWords() {
		if w.Action == action {
			return w.Words
		}
	}
	return action
}
