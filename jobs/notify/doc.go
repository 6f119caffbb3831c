// Package notify tells others what happened: by webhook, signed as Standard
// Webhooks (https://www.standardwebhooks.com) says, and by mail.
//
// What there is to tell is a row of the outbox, written by the transaction that
// decided it: an attempt that was fenced has none and so tells nobody. A
// [Deliverer] hands each row to the targets that want its topic, as one
// delivery each, and sends what is due:
//
//	outbox row    written with the decision, or not at all
//	delivery      the row for one target: an id and a body that never change
//	attempt       sent outside of any transaction, then recorded
//
// A delivery arrives at least once. When a deliverer dies between sending and
// recording, another sends the same bytes again under the same id (the header
// webhook-id; a part of Message-ID in mail), so that a receiver can drop what it
// has seen. Deliveries are not ordered.
//
// What fails is tried again for about a day, ever more rarely, and is then dead:
// it stays until somebody replays it. A target that answers slowly, or not at
// all, holds up nobody else: each has few sends at once, one that fails a single
// one, and all that fail together take at most half of the places.
package notify
