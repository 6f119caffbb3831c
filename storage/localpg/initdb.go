package localpg

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

const (
	dataName     = "data"
	passwordName = "password"
	// unfinished is what a cluster in the making is called.
	unfinished = "data.new-"
)

// prepare makes the password and the cluster when they are missing, and sees to it
// that the user of the server owns them.
func (s *Server) prepare(ctx context.Context) error {
	if err := s.as.own(s.options.Dir); err != nil {
		return err
	}
	if err := s.removeUnfinished(ctx); err != nil {
		return err
	}
	_, err := os.Stat(s.data())
	fresh := errors.Is(err, os.ErrNotExist)
	if err != nil && !fresh {
		return err
	}
	if s.password, err = keepPassword(s.file(passwordName), fresh); err != nil {
		return err
	}
	if err := s.as.own(s.file(passwordName)); err != nil {
		return err
	}
	if fresh {
		s.log.Info("making a PostgreSQL cluster", "dir", s.options.Dir, "bin", s.bin)
		return s.initialize(ctx)
	}
	return s.as.ownAll(s.data())
}

// initialize runs initdb beside the place and renames: a cluster is there whole or
// not at all, whenever we are killed.
func (s *Server) initialize(ctx context.Context) error {
	temp, err := os.MkdirTemp(s.options.Dir, unfinished)
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp) // gone after the rename; what is left the next start removes
	if err := s.as.own(temp); err != nil {
		return err
	}
	err = s.initdb(ctx, temp, "C.UTF-8")
	if err != nil && strings.Contains(err.Error(), "locale") {
		// Older macOS and Windows have no C.UTF-8. Plain C sorts the same way.
		err = s.initdb(ctx, temp, "C")
	}
	if err != nil {
		return fmt.Errorf("run %s: %w", filepath.Join(s.bin, "initdb"), err)
	}
	if err := os.Rename(temp, s.data()); err != nil {
		return err
	}
	return syncFolder(s.options.Dir)
}

func (s *Server) initdb(ctx context.Context, dir, locale string) error {
	args := []string{
		"--pgdata=" + dir, "--username=" + superuser, "--pwfile=" + s.file(passwordName),
		"--auth=scram-sha-256", "--encoding=UTF8", "--locale=" + locale,
	}
	if s.options.Settings["fsync"] == "off" {
		args = append(args, "--no-sync")
	}
	cmd := s.as.command(syscall.SIGKILL, filepath.Join(s.bin, "initdb"), args...)
	cmd.Dir = s.options.Dir
	_, err := run(ctx, cmd)
	return err
}

// removeUnfinished deletes what a killed initdb left. We hold the lock, so the one
// who wanted it is dead.
func (s *Server) removeUnfinished(ctx context.Context) error {
	entries, err := os.ReadDir(s.options.Dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), unfinished) {
			s.log.Info("removing a cluster that was not finished", "folder", entry.Name())
			if err := removeAll(ctx, s.file(entry.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// keepPassword reads the password, or makes one for a cluster that is still to be
// made.
func keepPassword(file string, fresh bool) (string, error) {
	kept, err := os.ReadFile(file)
	if password := strings.TrimSpace(string(kept)); err == nil && password != "" {
		return password, nil
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	if !fresh {
		return "", fmt.Errorf("the password file %s is missing or empty, and without it nobody can enter the database beside it: "+
			"put the file back, or move the folder away to begin with an empty one", file)
	}
	password := rand.Text()
	return password, writeFile(file, password)
}

// writeFile replaces a file of ours as a whole, readable for us alone.
func writeFile(name, content string) error {
	temp, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name()) // gone after the rename
	_, err = temp.WriteString(content + "\n")
	if err := errors.Join(err, temp.Sync(), temp.Close()); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return os.Rename(temp.Name(), name)
}
