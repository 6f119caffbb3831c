package address_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/fenceline/fenceline/jobs/lease/address"
)

func TestParse(t *testing.T) {
	t.Parallel()
	a, err := address.Parse("etcds://w%40x:p%2Fw@a,b:7,[::1]:8/team/one/?skip_verify=true&server_name=x", "2379")
	if err != nil {
		t.Fatal(err)
	}
	if a.Scheme != "etcds" || a.User != "w@x" || a.Password != "p/w" || a.Path != "team/one" || !slices.Equal(a.Hosts, []string{"a:2379", "b:7", "[::1]:8"}) {
		t.Errorf("%+v", a)
	}
	if err := a.Done(); err == nil {
		t.Error("parameters that nobody took are let through")
	}
	conf, err := a.TLS()
	if err != nil || conf.ServerName != "x" || !conf.InsecureSkipVerify {
		t.Errorf("%+v, %v", conf, err)
	}
	if err := a.Done(); err != nil {
		t.Error(err)
	}
}

func TestWhatDoesNotFitIsRefused(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{
		"a:2379":                             "must begin with a scheme",
		"etcd://":                            "host 1 is not HOST",
		"etcd://u:hunter2@a,b:x":             "host 2 is not HOST",
		"etcd://u:hunter2@a:70000":           "host 1 is not HOST",
		"etcd://u:hunter2/@a":                "before the @",
		"etcd://u:hunter2%@a":                "write it as %25",
		"etcd://hunter2@a":                   "belong together",
		"etcd://a/x#y":                       "write % as %25, # as %23",
		"etcd://a/?x=%zz":                    "NAME=VALUE",
		"etcd://u:hunter2@a/?skip_verify=2":  "skip_verify must be true or false",
		"etcd://a/?skip_verify=true&ca=/x":   "either the certificate is looked at or not",
		"etcd://a/?cert=/x":                  "cert and key belong together",
		"etcd://a/?ca=/nowhere.pem":          "ca: ",
		"etcd://a/?cert=/nowhere&key=/there": "cert and key: ",
	} {
		a, err := address.Parse(text, "2379")
		if err == nil {
			_, err = a.TLS()
		}
		if err == nil || !strings.Contains(err.Error(), "LEASE_URL: ") || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v; want %q", text, err, says)
		}
	}
}
