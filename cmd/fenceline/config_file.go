package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/jobs/report"
)

// maxConfig bounds a configuration file, in bytes.
const maxConfig = 1 << 20

// Where a setting can come from, the strongest first.
const (
	fromFlag    = "flag"
	fromEnv     = "environment"
	fromFile    = "file"
	fromDefault = "default"
)

// settled is a setting with its value.
type settled struct {
	Name   string `json:"setting"`  // as in the file
	Env    string `json:"variable"` // what people put into the environment
	Value  string `json:"value"`
	From   string `json:"from"`
	Where  string `json:"where,omitempty"` // file and line
	Secret bool   `json:"secret,omitempty"`
}

// configFile is a configuration file that was read and found good.
type configFile struct {
	path   string
	open   bool // others can read it
	values map[string]fileValue
}

type fileValue struct {
	text string
	line int
}

// settled finds the value of a setting: from its flag, its variable, the file, or
// as it is by default. A variable or a line that is empty does not count.
func (r *configReader) settled(s setting) settled {
	v := settled{Name: s.key(), Env: s.env, Value: s.def, From: fromDefault, Secret: s.secret}
	if s.name != "" {
		if f := r.flags.Lookup(s.name); f != nil && f.Changed {
			v.Value, v.From, v.Where = f.Value.String(), fromFlag, "--"+s.name
			return v
		}
	}
	if text := r.getenv(s.env); text != "" {
		v.Value, v.From, v.Where = text, fromEnv, s.env
		return v
	}
	if r.file == nil {
		return v
	}
	if in, ok := r.file.values[s.key()]; ok && in.text != "" {
		v.Value, v.From, v.Where = in.text, fromFile, fmt.Sprintf("%s:%d", r.file.path, in.line)
	}
	return v
}

// all is every setting, in the order of the table.
func (r *configReader) all() []settled {
	list := make([]settled, len(settings))
	for i, s := range settings {
		list[i] = r.settled(s)
	}
	return list
}

// openFile reads the configuration file: the one that is named, which must be
// there, or the default one, if it is. A default one of another user is refused:
// who can put a file into a folder must not turn the programs that are started
// there to servers of their own.
func (r *configReader) openFile() (*configFile, error) {
	named := r.settled(settingOf("FENCELINE_CONFIG"))
	if named.Value == "" {
		return nil, nil
	}
	f, err := os.Open(named.Value)
	if errors.Is(err, fs.ErrNotExist) {
		if named.From == fromDefault {
			return nil, nil
		}
		return nil, &coded{exitNotFound, fmt.Errorf("the configuration file %s (from %s) does not exist", named.Value, named.Where)}
	}
	if err != nil {
		return nil, fmt.Errorf("read the configuration file: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("read the configuration file: %w", err)
	}
	if named.From == fromDefault && (belongsToAnother(info) || info.Mode().Perm()&0o002 != 0) {
		return nil, &coded{exitRefused, fmt.Errorf("%s can be written by another user, so it is not read unasked; if you trust it, say --config %s", named.Value, named.Value)}
	}
	raw, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if err != nil {
		return nil, fmt.Errorf("read the configuration file: %w", err)
	}
	file := &configFile{path: named.Value, open: info.Mode().Perm()&0o044 != 0, values: map[string]fileValue{}}
	return file, file.parse(raw)
}

// configPath is the configuration file that was read, for a program of ours that
// is started from this one; empty for none.
func (c Config) configPath() string {
	if c.file == nil {
		return ""
	}
	return c.file.path
}

// warnings says what is not wrong enough to refuse.
func (f *configFile) warnings() (list []string) {
	if f == nil || !f.open {
		return nil
	}
	for _, s := range settings {
		if v, ok := f.values[s.key()]; ok && s.secret && v.text != "" {
			list = append(list, fmt.Sprintf("%s:%d: %s is a secret, and other users can read the file: chmod 600 %s", f.path, v.line, s.key(), f.path))
		}
	}
	return list
}

func (f *configFile) parse(raw []byte) error {
	if len(raw) > maxConfig {
		return invalid.New(f.path, "", "has more than %d bytes", maxConfig)
	}
	dec := yaml.NewDecoder(bytes.NewReader(raw))
	var doc yaml.Node
	err := dec.Decode(&doc)
	if errors.Is(err, io.EOF) { // nothing but comments
		return nil
	}
	if err != nil { // it names the line, and holds no values
		return invalid.New(f.path, "", "is not YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return invalid.New(f.path, "", "must hold one YAML document")
	}
	top := doc.Content[0]
	if top.Kind == yaml.ScalarNode && top.Tag == "!!null" {
		return nil
	}
	if top.Kind != yaml.MappingNode {
		return invalid.New(f.at(top), "", "must be settings, such as `concurrency: 8`")
	}
	refused := new(invalid.Error)
	for i := 0; i+1 < len(top.Content); i += 2 {
		f.take(top.Content[i], top.Content[i+1], refused)
	}
	return refused.OrNil()
}

func (f *configFile) at(n *yaml.Node) string { return fmt.Sprintf("%s:%d", f.path, n.Line) }

// take reads a line of the file. What is refused is not repeated: a secret may
// stand in the wrong line.
func (f *configFile) take(name, value *yaml.Node, refused *invalid.Error) {
	i := slices.IndexFunc(settings[:], func(s setting) bool { return s.key() == name.Value })
	if i < 0 || name.Kind != yaml.ScalarNode {
		refused.Add(f.at(name), name.Value, "is not a setting%s; `fenceline config` lists them", nearSetting(name.Value))
		return
	}
	s := settings[i]
	if before, twice := f.values[s.key()]; twice {
		refused.Add(f.at(name), s.key(), "is set twice, first in line %d", before.line)
		return
	}
	if s.env == "FENCELINE_CONFIG" {
		refused.Add(f.at(name), s.key(), "cannot be set in the file itself")
		return
	}
	text, ok := textOf(s.is, value)
	if !ok {
		refused.Add(f.at(value), s.key(), "must be %s", s.is)
	}
	f.values[s.key()] = fileValue{text, name.Line}
}

// nearSetting also knows the variables, which people try.
func nearSetting(name string) string {
	var keys []string
	for _, s := range settings {
		if strings.EqualFold(name, s.env) {
			return "; did you mean " + s.key() + "?"
		}
		keys = append(keys, s.key())
	}
	return report.DidYouMean(strings.ReplaceAll(strings.ToLower(name), "_", "-"), keys)
}

// String is what a value must be, for a person.
func (s shape) String() string {
	switch s {
	case isNumber:
		return "a whole number, without quotes"
	case isList:
		return "a text with commas, or a list of texts"
	case isWeights:
		return "a text such as default=3,slow=1, a list of names, or names with whole numbers"
	}
	return "a text; put it in quotes"
}

// textOf is a value as a flag would have it.
func textOf(s shape, n *yaml.Node) (string, bool) {
	switch {
	case s == isNumber:
		_, err := strconv.Atoi(n.Value)
		return n.Value, n.Kind == yaml.ScalarNode && n.Tag == "!!int" && err == nil
	case n.Kind == yaml.ScalarNode:
		return n.Value, n.Tag == "!!str" || n.Tag == "!!int" && n.Value == "0" // a duration of nothing
	case n.Kind == yaml.SequenceNode && (s == isList || s == isWeights):
		parts := make([]string, len(n.Content))
		for i, item := range n.Content {
			if item.Kind != yaml.ScalarNode || item.Tag != "!!str" || strings.Contains(item.Value, ",") {
				return "", false
			}
			parts[i] = item.Value
		}
		return strings.Join(parts, ","), true
	case n.Kind == yaml.MappingNode && s == isWeights:
		return weightsOf(n)
	}
	return "", false
}

func weightsOf(n *yaml.Node) (string, bool) {
	var parts []string
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, weight := n.Content[i], n.Content[i+1]
		if name.Kind != yaml.ScalarNode || weight.Kind != yaml.ScalarNode || weight.Tag != "!!int" || strings.ContainsAny(name.Value, ",=") {
			return "", false
		}
		parts = append(parts, name.Value+"="+weight.Value)
	}
	return strings.Join(parts, ","), true
}
