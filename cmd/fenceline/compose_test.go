package main

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	composecli "github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/spf13/pflag"
)

// repository is the root of the repository, seen from this package.
const repository = "../.."

// composeEnv is an environment in which the compose file is complete.
func composeEnv() map[string]string {
	return map[string]string{"POSTGRES_PASSWORD": "pg5f0e", "REDIS_PASSWORD": "re91ac"}
}

// loadCompose reads the compose file as the engine does, in an environment that
// holds nothing else.
func loadCompose(t *testing.T, env map[string]string) (*types.Project, error) {
	t.Helper()
	var list []string
	for name, value := range env {
		list = append(list, name+"="+value)
	}
	options, err := composecli.NewProjectOptions([]string{filepath.Join(repository, "docker-compose.yml")}, composecli.WithEnv(list))
	if err != nil {
		t.Fatal(err)
	}
	return options.LoadProject(t.Context())
}

// wholeCompose is the whole project.
func wholeCompose(t *testing.T) *types.Project {
	t.Helper()
	project, err := loadCompose(t, composeEnv())
	if err != nil {
		t.Fatal(err)
	}
	return project
}

// ourServices are the services that run this command.
func ourServices(p *types.Project) types.Services {
	found := types.Services{}
	for name, s := range p.Services {
		if s.Build != nil {
			found[name] = s
		}
	}
	return found
}

// serviceEnv is what a service is started with.
func serviceEnv(s types.ServiceConfig) map[string]string {
	env := map[string]string{}
	for name, value := range s.Environment {
		if value != nil {
			env[name] = *value
		}
	}
	return env
}

func TestComposeStartsEveryPart(t *testing.T) {
	t.Parallel()
	commands := map[string]string{}
	for name, s := range ourServices(wholeCompose(t)) {
		commands[name] = strings.Join(s.Command, " ")
		if err := understood(s.Command); err != nil {
			t.Errorf("%s runs `fenceline %s`: %v", name, commands[name], err)
		}
	}
	want := map[string]string{"migrate": "migrate", "web": "serve", "worker": "work", "scheduler": "schedule work"}
	if !maps.Equal(commands, want) {
		t.Errorf("the services of ours are %v, want %v", commands, want)
	}
}

// understood says why a command line would be refused.
func understood(line []string) error {
	command, rest, err := new(cli).root().Find(line)
	if err != nil {
		return err
	}
	if command.HasSubCommands() {
		return fmt.Errorf("%s does nothing by itself", command.CommandPath())
	}
	if err := command.ParseFlags(rest); err != nil {
		return err
	}
	return command.ValidateArgs(command.Flags().Args())
}

func TestComposeSetsOnlySettingsThatExist(t *testing.T) {
	t.Parallel()
	for name, s := range ourServices(wholeCompose(t)) {
		env := serviceEnv(s)
		for variable := range env {
			if !isSetting(variable) {
				t.Errorf("%s sets %s, which is not in the table of settings", name, variable)
			}
		}
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		addFlags(flags)
		if _, err := loadConfig(flags, func(variable string) string { return env[variable] }); err != nil {
			t.Errorf("%s sets what is refused: %v", name, err)
		}
		if env["DATABASE_URL"] == "" {
			t.Errorf("%s has no DATABASE_URL and would look for private servers", name)
		}
	}
}

func isSetting(variable string) bool {
	return slices.ContainsFunc(settings[:], func(s setting) bool { return s.env == variable })
}

// secretName is how the images of others call their secrets.
var secretName = regexp.MustCompile(`PASSWORD|SECRET|TOKEN|AUTH|_KEY$`)

// TestComposeHoldsNoSecret sees that every secret is exactly what the environment gives.
func TestComposeHoldsNoSecret(t *testing.T) {
	t.Parallel()
	given := slices.Collect(maps.Values(composeEnv()))
	for name, s := range wholeCompose(t).Services {
		for variable, value := range serviceEnv(s) {
			ours := slices.ContainsFunc(settings[:], func(s setting) bool { return s.env == variable && s.secret }) && value != ""
			if (ours || secretName.MatchString(variable)) && !slices.Contains(given, urlPassword(value)) {
				t.Errorf("%s: the secret in %s does not come from the environment", name, variable)
			}
		}
	}
	raw := repositoryFile(t, "docker-compose.yml")
	for variable := range composeEnv() {
		for _, use := range regexp.MustCompile(`\$\{?`+variable+`[^}]*`).FindAllString(raw, -1) {
			if !strings.HasPrefix(use, "${"+variable+":?") {
				t.Errorf("%s… has a default or may be empty; use ${%s:?message}", use, variable)
			}
		}
	}
}

// urlPassword is the password in a URL, or the whole value when it is none.
func urlPassword(value string) string {
	u, err := url.Parse(value)
	if err != nil || u.Host == "" {
		return value
	}
	p, _ := u.User.Password()
	return p
}

func TestComposeAsksForEverySecret(t *testing.T) {
	t.Parallel()
	for missing := range composeEnv() {
		for _, empty := range []bool{false, true} {
			env := composeEnv()
			delete(env, missing)
			if empty {
				env[missing] = ""
			}
			_, err := loadCompose(t, env)
			if err == nil || !strings.Contains(err.Error(), missing) || !strings.Contains(err.Error(), "letters and digits") {
				t.Errorf("without %s (empty: %v): got error %v, want one that names it and says what to set", missing, empty, err)
			}
		}
	}
}

func TestComposeKnowsWhatIsHealthy(t *testing.T) {
	t.Parallel()
	project := wholeCompose(t)
	for name, s := range project.Services {
		once := s.Restart == "no"
		check := s.HealthCheck != nil && !s.HealthCheck.Disable && len(s.HealthCheck.Test) > 1
		if once == check {
			t.Errorf("%s: runs once: %v, has a health check: %v; want one of both", name, once, check)
		}
		for on, dependency := range s.DependsOn {
			want := types.ServiceConditionHealthy
			if project.Services[on].Restart == "no" {
				want = types.ServiceConditionCompletedSuccessfully
			}
			if dependency.Condition != want {
				t.Errorf("%s waits for %s to be %q, want %q", name, on, dependency.Condition, want)
			}
		}
		if s.Build != nil && check && s.HealthCheck.Test[1] == "fenceline" {
			if err := understood(s.HealthCheck.Test[2:]); err != nil {
				t.Errorf("%s is checked by %v: %v", name, s.HealthCheck.Test, err)
			}
		}
	}
	for _, name := range []string{"web", "worker", "scheduler"} {
		if _, ok := project.Services[name].DependsOn["migrate"]; !ok {
			t.Errorf("%s does not wait for the migrations", name)
		}
	}
}

func TestComposeSharesTheFiles(t *testing.T) {
	t.Parallel()
	project := wholeCompose(t)
	var volumes []string
	for _, name := range []string{"web", "worker", "scheduler"} {
		s := project.Services[name]
		env := serviceEnv(s)
		volumes = append(volumes, mountedAt(s, env["FILES_DIR"]))
		if mountedAt(s, env["REPORTS_DIR"]) == "" {
			t.Errorf("%s does not see the reports in %s", name, env["REPORTS_DIR"])
		}
		if mountedAt(s, env["FILES_DIR"]) == "" || project.Volumes[mountedAt(s, env["FILES_DIR"])].Name == "" {
			t.Errorf("%s has no named volume at FILES_DIR %q", name, env["FILES_DIR"])
		}
	}
	if len(slices.Compact(volumes)) != 1 {
		t.Errorf("web, worker and scheduler keep their files in %v, want one volume", volumes)
	}
}

// mountedAt is what a service has at a path.
func mountedAt(s types.ServiceConfig, target string) string {
	for _, v := range s.Volumes {
		if v.Target == target {
			return v.Source
		}
	}
	return ""
}

// TestComposeStopsAfterItsParts sees that nobody is killed while it hands back work.
func TestComposeStopsAfterItsParts(t *testing.T) {
	t.Parallel()
	worker := wholeCompose(t).Services["worker"]
	env := serviceEnv(worker)
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	addFlags(flags)
	conf, err := loadConfig(flags, func(variable string) string { return env[variable] })
	if err != nil {
		t.Fatal(err)
	}
	if worker.StopGracePeriod == nil || int64(*worker.StopGracePeriod) <= int64(conf.Grace) {
		t.Errorf("a worker is killed after %v, within its own grace of %s", worker.StopGracePeriod, conf.Grace)
	}
}

func TestComposeKeepsNothingInRedis(t *testing.T) {
	t.Parallel()
	project := wholeCompose(t)
	content := project.Configs["redis"].Content
	for _, line := range []string{"requirepass re91ac", `save ""`, "appendonly no", "maxmemory-policy noeviction"} {
		if !slices.Contains(strings.Split(content, "\n"), line) {
			t.Errorf("the configuration of Redis has no line %q:\n%s", line, content)
		}
	}
	redis := project.Services["redis"]
	if len(redis.Configs) != 1 || !slices.Contains(redis.Command, redis.Configs[0].Target) {
		t.Errorf("Redis is started with %v and does not read its configuration", redis.Command)
	}
}

// instruction is a line of the Dockerfile: FROM and what follows.
type instruction struct{ name, rest string }

// dockerfile reads the instructions, with continued lines joined and comments left out.
func dockerfile(t *testing.T) []instruction {
	t.Helper()
	var found []instruction
	var joined string
	for line := range strings.SplitSeq(repositoryFile(t, "Dockerfile"), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		part, more := strings.CutSuffix(line, `\`)
		joined += part + " "
		if more {
			continue
		}
		name, rest, _ := strings.Cut(strings.TrimSpace(joined), " ")
		found = append(found, instruction{strings.ToUpper(name), strings.TrimSpace(rest)})
		joined = ""
	}
	return found
}

// buildStages splits the instructions at each FROM.
func buildStages(list []instruction) (found [][]instruction) {
	for _, in := range list {
		if in.name == "FROM" {
			found = append(found, nil)
		}
		if len(found) > 0 {
			found[len(found)-1] = append(found[len(found)-1], in)
		}
	}
	return found
}

// lastOf is the last instruction of a name, which is the one that counts.
func lastOf(stage []instruction, name string) string {
	for _, in := range slices.Backward(stage) {
		if in.name == name {
			return in.rest
		}
	}
	return ""
}

func TestDockerfileBuildsWithTheModulesGo(t *testing.T) {
	t.Parallel()
	parts := buildStages(dockerfile(t))
	if len(parts) < 2 {
		t.Fatalf("the Dockerfile has %d stages: its image would hold the compiler", len(parts))
	}
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(repositoryFile(t, "go.mod"))
	if from := lastOf(parts[0], "FROM"); version == nil || !strings.HasPrefix(from, "golang:"+version[1]+"-") {
		t.Errorf("the first stage is %q, go.mod wants Go %v", from, version)
	}
	if from := lastOf(parts[len(parts)-1], "FROM"); strings.HasPrefix(from, "golang") {
		t.Errorf("the last stage is %q, which holds the compiler", from)
	}
	static := slices.ContainsFunc(parts[0], func(in instruction) bool {
		return in.name == "RUN" && strings.Contains(in.rest, "CGO_ENABLED=0 go build")
	})
	if !static {
		t.Error("the binary is not built with CGO_ENABLED=0: it may need libraries that the last stage has not")
	}
}

func TestDockerfileRunsTheBinaryAsNobody(t *testing.T) {
	t.Parallel()
	parts := buildStages(dockerfile(t))
	image := parts[len(parts)-1]
	user, _, _ := strings.Cut(lastOf(image, "USER"), ":")
	if n, err := strconv.Atoi(user); err != nil || n == 0 {
		t.Errorf("USER is %q, want a number that is not 0", lastOf(image, "USER"))
	}
	binary := "/usr/local/bin/fenceline"
	if got := lastOf(image, "ENTRYPOINT"); got != `["`+binary+`"]` {
		t.Errorf("ENTRYPOINT is %s, want the binary alone, as a list: a shell would keep the signals", got)
	}
	copied := slices.ContainsFunc(image, func(in instruction) bool {
		return in.name == "COPY" && strings.HasPrefix(in.rest, "--from=build ") && strings.HasSuffix(in.rest, " "+binary)
	})
	if !copied {
		t.Errorf("nothing is copied from the build to %s", binary)
	}
	if lastOf(image, "HEALTHCHECK") == "" {
		t.Error("the image has no HEALTHCHECK")
	}
}

func TestDockerfileSetsOnlySettingsThatExist(t *testing.T) {
	t.Parallel()
	for _, in := range dockerfile(t) {
		if in.name != "ENV" {
			continue
		}
		for pair := range strings.FieldsSeq(in.rest) {
			variable, _, _ := strings.Cut(pair, "=")
			if !isSetting(variable) {
				t.Errorf("ENV sets %s, which is not in the table of settings", variable)
			}
			if slices.ContainsFunc(settings[:], func(s setting) bool { return s.env == variable && s.secret }) {
				t.Errorf("ENV sets the secret %s for everybody who has the image", variable)
			}
		}
	}
}

// repositoryFile is a file of the repository.
func repositoryFile(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(repository, name))
	if errors.Is(err, os.ErrNotExist) {
		t.Fatalf("%s is missing", name)
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
