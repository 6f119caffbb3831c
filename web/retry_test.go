package web

import (
	"net/url"
	"testing"

	"github.com/fenceline/fenceline/storage"
)

func TestRetry(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	fail := func(key string) storage.Job {
		j := w.job("acme", key, "Key "+key)
		must(w.store.EndAttempt(w.ctx, w.begin(j, "w-1").ID, storage.Ending{State: storage.AttemptFailed, Reason: "error", Error: "no such table", Counts: true, Final: true}))(t)
		return j
	}
	first, second := fail("a"), fail("b")
	ours, theirs, person := w.token("acme"), w.token("globex"), w.person("Nadia", "")
	api := "/api/v1/jobs/" + first.ID.String() + "/retry"
	w.call(api, theirs, "").want(t, 404)
	w.call(api, ours, "").want(t, 202, `"state":"queued"`)
	w.call(api, ours, "").want(t, 409, "job-not-failed")
	page := "/jobs/" + second.ID.String()
	w.get(page, person).want(t, 200, "Try again", "no such table")
	w.post(page+"/retry", person, url.Values{}).want(t, 303)
	w.get(page, person).want(t, 200).without(t, "Try again")
}
