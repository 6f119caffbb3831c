package jobs

import (
	"reflect"
	"slices"
	"testing"
	"time"
)

type tagLogin struct {
	User string `json:"user"`
	Pass string `json:"pass" fenceline:"secret"`
}

type tagTree struct {
	Token    string     `fenceline:"secret"`
	Children []*tagTree `json:"children"`
}

type tagPlainTree struct {
	Name     string
	Children []tagPlainTree
}

type tagOdd struct {
	tagLogin
	Renamed  string              `json:"re_named,omitempty" fenceline:"other,secret"`
	Unnamed  string              `json:",omitempty" fenceline:"secret"`
	Whole    []string            `json:"whole" fenceline:"secret"`
	List     []tagLogin          `json:"list"`
	Array    [2]*tagLogin        `json:"array"`
	Map      map[string]tagLogin `json:"map"`
	Deep     map[string][]tagLogin
	Dotted   string       `json:"a.b" fenceline:"secret"`
	Skipped  string       `json:"-" fenceline:"secret"`
	hidden   string       `fenceline:"secret"` //nolint:unused // not even JSON sees it
	Tree     tagTree      `json:"tree"`
	Plain    tagPlainTree `json:"plain"`
	At       time.Time
	Any      any
	Named    tagLogin `json:"named" fenceline:"secret"`
	Untagged *tagLogin
}

type tagEmbedded struct {
	tagLogin `fenceline:"secret"`
	N        int `json:"n"`
}

func TestSecretPathsOfTypes(t *testing.T) {
	t.Parallel()
	for of, want := range map[reflect.Type][]string{
		reflect.TypeFor[tagLogin]():            {"pass"},
		reflect.TypeFor[*tagLogin]():           {"pass"},
		reflect.TypeFor[[]tagLogin]():          {"*.pass"},
		reflect.TypeFor[map[string]tagLogin](): {"*.pass"},
		reflect.TypeFor[tagPlainTree]():        nil,
		reflect.TypeFor[string]():              nil,
		reflect.TypeFor[any]():                 nil,
		reflect.TypeFor[tagTree]():             {"Token", "children.*"},
		reflect.TypeFor[tagEmbedded]():         {"pass", "user"},
		reflect.TypeFor[tagOdd](): {
			"*", "Deep.*.*.pass", "Unnamed", "Untagged.pass", "array.*.pass", "list.*.pass", "map.*.pass", "named", "pass", "re_named",
			"tree.Token", "tree.children.*", "whole",
		},
	} {
		if got := secretPaths(of); !slices.Equal(got, want) {
			t.Errorf("%s\n got %q\nwant %q", of, got, want)
		}
	}
}
