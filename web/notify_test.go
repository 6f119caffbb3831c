package web

import (
	"strings"
	"testing"

	"github.com/fenceline/fenceline/storage"
)

type targetJSON struct {
	ID, Tenant, Name, Secret string
	Topics                   []string
	DisabledAt               *string `json:"disabled_at"`
}

const targetsPath = "/api/v1/notify/targets"

func TestAPITargets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ours, theirs, all := w.token("acme"), w.token("globex"), w.token("")
	body := `{"name":"shop","kind":"webhook","url":"http://hooks.internal/x","topics":["export.published","custom.*"]}`
	made := w.call(targetsPath, ours, body).want(t, 201)
	target := decode[targetJSON](t, made)
	path := targetsPath + "/" + target.ID
	if target.Tenant != "acme" || !strings.HasPrefix(target.Secret, "whsec_") || len(target.Topics) != 2 || made.Header.Get("Location") != path {
		t.Errorf("made %+v", target)
	}
	bare := strings.TrimPrefix(target.Secret, "whsec_")
	w.call(targetsPath, ours, body).want(t, 409, "target-exists")
	w.call(targetsPath, ours, strings.Replace(body, "{", `{"tenant":"globex",`, 1)).want(t, 403)
	w.call(targetsPath, all, strings.Replace(body, "{", `{"tenant":"globex",`, 1)).want(t, 201, `"tenant":"globex"`)
	w.call(targetsPath, all, body).want(t, 201, `"tenant":"default"`)
	for text, field := range map[string]string{
		`{"name":"a","kind":"webhook","url":"https://169.254.169.254/"}`: "url", `{"name":"a","kind":"mail","addresses":["x"]}`: "addresses",
		`{"name":"a","kind":"mail","addresses":"a@example.com"}`: "addresses", `{"name":"a","kind":"webhook","url":"https://example.com","secret":"x"}`: "secret",
	} {
		w.call(targetsPath, ours, text).want(t, 422, `"field":"`+field+`"`)
	}
	for _, p := range []string{path, targetsPath} {
		w.get(p, ours).want(t, 200, `"name":"shop"`).without(t, bare, "whsec_")
	}
	w.get(targetsPath, w.token("nobody")).want(t, 200, `"items":[]`)
	w.get(path, theirs).want(t, 404)
	for _, verb := range []string{"enable", "disable", "rotate", "test"} {
		w.call(path+"/"+verb, theirs, "").want(t, 404)
	}
	w.send("DELETE", path, theirs, nil).want(t, 404)
	w.call(path+"/disable", ours, "").want(t, 200, `"disabled_why":"by token test"`)
	w.call(path+"/test", ours, "").want(t, 422, "is disabled")
	if got := decode[targetJSON](t, w.call(path+"/enable", ours, "").want(t, 200)); got.DisabledAt != nil {
		t.Errorf("enabled as %+v", got)
	}
	if got := decode[targetJSON](t, w.call(path+"/rotate", ours, "").want(t, 200)); !strings.HasPrefix(got.Secret, "whsec_") || got.Secret == target.Secret {
		t.Error("the secret is no new one")
	}
	w.call(path+"/test", ours, "").want(t, 202, `"state":"pending"`, `"topic":"test"`)
	w.send("DELETE", path, ours, nil).want(t, 204)
	w.get(path, ours).want(t, 404)
	if strings.Contains(w.log.String(), bare) {
		t.Error("the secret is in the log")
	}
}

func TestAPIDeliveries(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ours, theirs := w.token("acme"), w.token("globex")
	target := decode[targetJSON](t, w.call(targetsPath, ours, `{"name":"shop","kind":"webhook","url":"https://example.com/"}`).want(t, 201))
	for _, key := range []string{"a", "b"} {
		w.published("acme", key, "Key "+key, key+".csv", "id\n")
	}
	must(w.store.FanOut(w.ctx, 10, func(n storage.Notice) (string, error) { return `{"type":"` + n.Topic + `"}`, nil }))(t)
	list := must(w.store.ClaimDeliveries(w.ctx, storage.DeliveryClaim{Kinds: []string{"webhook"}, Limit: 9, PerTarget: 9, Lease: 1e12}))(t)
	for _, d := range list {
		must(w.store.RecordDelivery(w.ctx, d, storage.DeliveryOutcome{State: storage.DeliveryDead, Error: "answered 404", Status: 404}))(t)
	}
	const path = "/api/v1/notify/deliveries"
	first := w.get(path+"?state=dead&limit=1&target="+target.ID, ours).want(t, 200, `"state":"dead"`, `"last_status":404`, `"target":"shop"`, `"next":"`)
	page := decode[storage.Page[storage.Delivery]](t, first)
	if !strings.Contains(first.Header.Get("Link"), "after="+page.Next) || len(page.Items) != 1 {
		t.Errorf("the first page is %+v with %q", page, first.Header.Get("Link"))
	}
	second := decode[storage.Page[storage.Delivery]](t, w.get(path+"?limit=1&after="+page.Next, ours).want(t, 200))
	if len(second.Items) != 1 || second.Next != "" || second.Items[0].ID == page.Items[0].ID {
		t.Errorf("the second page is %+v", second)
	}
	w.get(path+"?after=x", ours).want(t, 400, "cursor")
	w.get(path+"?state=late", ours).want(t, 422, `"field":"state"`)
	w.get(path+"?target=x", ours).want(t, 422, `"field":"target"`)
	w.get(path, theirs).want(t, 200, `"items":[]`)
	one := path + "/" + page.Items[0].ID.String()
	w.get(one, ours).want(t, 200, `"body":{"type":"export.published"}`)
	w.get(one, theirs).want(t, 404)
	w.call(one+"/replay", theirs, "").want(t, 404)
	w.call(one+"/replay", ours, "").want(t, 202, `"state":"pending"`)
	w.call(path+"/replay", theirs, "").want(t, 202, `"replayed":0`)
	w.call(path+"/replay?target="+target.ID, theirs, "").want(t, 404)
	other := decode[targetJSON](t, w.call(targetsPath, ours, `{"name":"other","kind":"webhook","url":"https://example.com/"}`).want(t, 201))
	w.call(path+"/replay", ours, `{"target":"`+other.ID+`"}`).want(t, 202, `"replayed":0`)
	w.call(path+"/replay", ours, `{"target":"shop"}`).want(t, 422, `"field":"target"`)
	w.call(path+"/replay", ours, `{"targets":[]}`).want(t, 422, `"field":"targets"`)
	w.call(path+"/replay", theirs, `{"target":"`+target.ID+`"}`).want(t, 404)
	w.call(path+"/replay", ours, `{"target":"`+target.ID+`"}`).want(t, 202, `"replayed":1`)
	w.call(path+"/replay?target="+target.ID, ours, "").want(t, 202, `"replayed":0`)
}
