package web

import (
	"encoding/json"
	"testing"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/storage"
)

func TestAPIBatches(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := must(w.store.EnsureBatch(w.ctx, storage.Batch{Tenant: "acme", Key: "k", Title: "October"}))(t)
	must(w.store.EnsureBatch(w.ctx, storage.Batch{Tenant: "acme", Key: "k2", Title: "November"}))(t)
	must(w.dispatcher.Dispatch(w.ctx, nil, jobs.Request{Kind: "report", Tenant: "acme", Payload: json.RawMessage(`{"report":"orders","params":{"from":"2026-01-01"}}`)}, jobs.InBatch(b.ID)))(t)
	ours, theirs := w.token("acme"), w.token("globex")
	path := "/api/v1/batches/" + b.ID.String()
	w.get(path, ours).want(t, 200, `"title":"October"`, `"total":1`, `"queued":1`)
	w.get(path, theirs).want(t, 404)
	w.call(path+"/retry", theirs, "").want(t, 404)
	w.call(path+"/retry", ours, "").want(t, 200, `"total":1`)
	w.get("/api/v1/batches", theirs).want(t, 200, `"items":[]`)
	first := w.get("/api/v1/batches?limit=1", ours).want(t, 200, "November", `"next":"`)
	first.without(t, "October")
	var page storage.Page[storage.Batch]
	if err := json.Unmarshal([]byte(first.body), &page); err != nil {
		t.Fatal(err)
	}
	w.get("/api/v1/batches?limit=1&after="+page.Next, ours).want(t, 200, "October").without(t, "November")
	w.get("/api/v1/batches?after=x", ours).want(t, 400, "cursor")
}
