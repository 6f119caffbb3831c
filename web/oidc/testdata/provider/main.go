// Command provider is an OpenID provider for tests: the kept example of zitadel/oidc,
// with people, groups and tenants from a file. It prints its issuer when it listens.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"
)

// person is a user of the file, with what the example does not know.
type person struct {
	storage.User
	Claims map[string]any
}

// people add their claims to what the example says of them.
type people struct {
	*storage.Storage
	claims map[string]map[string]any
}

// SetUserinfoFromToken answers the request for what is known of a person.
func (p people) SetUserinfoFromToken(ctx context.Context, info *oidc.UserInfo, token, subject, origin string) error {
	if err := p.Storage.SetUserinfoFromToken(ctx, info, token, subject, origin); err != nil {
		return err
	}
	for name, value := range p.claims[subject] {
		info.AppendClaims(name, value)
	}
	return nil
}

type store map[string]*storage.User

func (s store) GetUserByID(id string) *storage.User { return s[id] }

func (s store) GetUserByUsername(name string) *storage.User {
	for _, u := range s {
		if u.Username == name {
			return u
		}
	}
	return nil
}

func (s store) ExampleClientID() string { return storage.ServiceUserID }

func main() {
	file := flag.String("people", "", "file of people (JSON)")
	client := flag.String("client", "fenceline", "id of the client")
	redirects := flag.String("redirects", "", "where people may be sent back to, with commas between")
	flag.Parse()
	if err := run(*file, *client, os.Getenv("CLIENT_SECRET"), strings.Split(*redirects, ",")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(file, client, secret string, redirects []string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var list []person
	if err := json.Unmarshal(text, &list); err != nil {
		return fmt.Errorf("read %s: %w", file, err)
	}
	users, claims := store{}, map[string]map[string]any{}
	for _, p := range list {
		users[p.ID], claims[p.ID] = &p.User, p.Claims
	}
	storage.RegisterClients(storage.WebClient(client, secret, redirects...))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	issuer := "http://" + ln.Addr().String()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	handler := exampleop.SetupServer(issuer, people{storage.NewStorage(users), claims}, log, false)
	go func() { // who started it holds the other end, and lets go of it when it ends in whatever way
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	fmt.Println(issuer)
	return (&http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}).Serve(ln)
}
