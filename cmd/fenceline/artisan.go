package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fenceline/fenceline/jobs/report"
)

// artisan lets those who come from Laravel write `queue:work` for `queue work`: the
// first argument that is no flag, when it has colons, becomes the words between
// them. Where our command has another name, the words are that name's. No command
// of ours takes such an argument in this place.
func artisan(root *cobra.Command, args []string) ([]string, error) {
	i := firstWord(root.PersistentFlags(), args)
	if i < 0 || !strings.Contains(args[i], ":") {
		return args, nil
	}
	words := strings.Split(args[i], ":")
	if at, known := descend(root, words); known < len(words) {
		other, ok := elsewhere(args[i])
		if _, n := descend(root, other); !ok || n < len(other) {
			return nil, unknownForm(at, args[i], words, known)
		}
		words = other
	}
	return slices.Concat(args[:i], words, args[i+1:]), nil
}

// unknownForm says what is wrong: words are known up to the command at.
func unknownForm(at *cobra.Command, given string, words []string, known int) error {
	prefix := strings.Join(append(slices.Clone(words[:known]), ""), ":")
	var all []string
	for _, sub := range at.Commands() {
		all = append(all, prefix+sub.Name())
	}
	hint := report.DidYouMean(given, all)
	return usageError("%q is not a command of fenceline%s; see `%s --help`", given, hint, at.CommandPath())
}

// elsewhere are commands of artisan that are others here.
func elsewhere(name string) ([]string, bool) {
	words, ok := map[string][]string{
		"queue:listen": {"work"}, "config:show": {"config"}, "migrate:status": {"doctor"},
	}[name]
	return words, ok
}

// firstWord is the place of the first argument that is neither a flag nor a flag's value; -1 for none.
func firstWord(flags *pflag.FlagSet, args []string) int {
	for i := 0; i < len(args); i++ {
		name, isFlag := strings.CutPrefix(args[i], "--")
		switch {
		case args[i] == "--":
			return -1
		case isFlag:
			if f := flags.Lookup(name); f != nil && f.NoOptDefVal == "" {
				i++ // its value
			}
		case !strings.HasPrefix(args[i], "-"):
			return i
		}
	}
	return -1
}

// descend follows words from the root, each to a command below the last, and
// answers where that ends and how many words were commands.
func descend(root *cobra.Command, words []string) (at *cobra.Command, known int) {
	at = root
	for _, word := range words {
		i := slices.IndexFunc(at.Commands(), func(sub *cobra.Command) bool { return sub.Name() == word || sub.HasAlias(word) })
		if i < 0 {
			break
		}
		at, known = at.Commands()[i], known+1
	}
	return at, known
}
