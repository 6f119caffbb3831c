package web

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/web/oidc"
)

// somebody is a person whom the provider knows.
type somebody struct {
	ID, Username, Password, FirstName, LastName string
	Claims                                      map[string]any
}

const (
	clientID     = "fenceline"
	clientSecret = "not-a-secret-0123456789"
)

// startProvider runs a real OpenID provider that sends people back to an address, and
// answers its issuer. It ends with the test, however that ends.
func startProvider(t *testing.T, back string, people []somebody) string {
	t.Helper()
	bin := must(filepath.Abs(filepath.Join("..", "bin", "oidcprovider")))(t)
	if _, err := os.Stat(bin); err != nil {
		t.Fatal("bin/oidcprovider is missing, an OpenID provider for tests; `make tools` compiles it")
	}
	file := filepath.Join(t.TempDir(), "people.json")
	if err := os.WriteFile(file, must(json.Marshal(people))(t), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bin, "-people", file, "-client", clientID, "-redirects", back)
	cmd.Env = append(os.Environ(), "CLIENT_SECRET="+clientSecret)
	hold := must(cmd.StdinPipe())(t) // the program ends when this end is let go of
	out := must(cmd.StdoutPipe())(t)
	var log bytes.Buffer
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 1)
	read := make(chan struct{})
	go func() {
		defer close(read)
		line, _ := bufio.NewReader(out).ReadString('\n')
		lines <- strings.TrimSpace(line)
		_, _ = io.Copy(io.Discard, out)
	}()
	t.Cleanup(func() {
		_ = hold.Close()
		<-read
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("log of the provider:\n%s", &log)
		}
	})
	late := time.NewTimer(time.Minute)
	defer late.Stop()
	select {
	case issuer := <-lines:
		if issuer != "" {
			return issuer
		}
	case <-late.C:
	}
	_ = cmd.Process.Kill()
	t.Fatal("the provider does not start")
	return ""
}

// byProvider gives a server a real provider of some people; groups make roles.
func byProvider(t *testing.T, issuer *string, people ...somebody) func(*Config) {
	return func(c *Config) {
		*issuer = startProvider(t, c.PublicURL+CallbackPath, people)
		c.Provider = &oidc.Config{Issuer: *issuer, ClientID: clientID, ClientSecret: clientSecret, Name: "Example ID", RoleClaim: "groups",
			Roles: map[string]storage.Role{"staff": storage.RoleViewer, "heads": storage.RoleAdmin}, TenantClaim: "org"}
	}
}
