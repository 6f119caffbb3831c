package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// runningName is the file in the data folder by which other commands find the
// private servers. It holds their passwords, never those of other servers, and
// is readable by its owner only.
const runningName = "running.json"

type running struct {
	PID         int       `json:"pid"`
	Started     time.Time `json:"started"`
	DatabaseURL string    `json:"database_url"`
	RedisURL    string    `json:"redis_url"`
	URL         string    `json:"url"`
	Namespace   string    `json:"namespace"`
	Files       string    `json:"files"`
	Lease       string    `json:"lease"`
}

// writeRunning replaces the file as a whole.
func writeRunning(dir string, r running) error {
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	temp := filepath.Join(dir, "."+runningName)
	if err := os.WriteFile(temp, raw, 0o600); err != nil {
		return fmt.Errorf("write %s: %w", runningName, err)
	}
	return os.Rename(temp, filepath.Join(dir, runningName))
}

func removeRunning(dir string) { _ = os.Remove(filepath.Join(dir, runningName)) }

// findServers fills in what flags and variables do not say from a running `up`. What
// that uses wins over the file and the defaults: it may have been started with flags.
func findServers(c Config) (Config, error) {
	if c.DatabaseURL != "" {
		return c, nil
	}
	raw, err := os.ReadFile(filepath.Join(c.Data, runningName))
	if errors.Is(err, fs.ErrNotExist) {
		return c, fmt.Errorf("no Fenceline runs on %s: start one with `fenceline up`, give its folder with --data, or set DATABASE_URL", c.Data)
	}
	if err != nil {
		return c, fmt.Errorf("look for a running Fenceline: %w", err)
	}
	var r running
	if err := json.Unmarshal(raw, &r); err != nil {
		return c, fmt.Errorf("read %s in %s: %w", runningName, c.Data, err)
	}
	if r.DatabaseURL == "" {
		return c, fmt.Errorf("the Fenceline that runs on %s has no private PostgreSQL: set DATABASE_URL as it was set there", c.Data)
	}
	c.DatabaseURL = r.DatabaseURL
	if !c.said("FILES_DIR", "FILES_URL") {
		c.Files = r.Files
	}
	if !c.said("FENCELINE_NAMESPACE") {
		c.Namespace = r.Namespace
	}
	if c.PublicURL == "" {
		c.PublicURL = r.URL
	}
	if c.RedisURL == "" {
		c.RedisURL = r.RedisURL
	}
	if lease, err := time.ParseDuration(r.Lease); err == nil && !c.said("FENCELINE_LEASE") { // workers of one deployment agree on it
		c.Lease = lease
	}
	return c, nil
}

// said reports whether one of these settings was given to this very run, by a flag or a variable.
func (c Config) said(envs ...string) bool {
	return slices.ContainsFunc(c.settings, func(s settled) bool {
		return slices.Contains(envs, s.Env) && (s.From == fromFlag || s.From == fromEnv)
	})
}
