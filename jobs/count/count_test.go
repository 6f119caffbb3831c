package count_test

import (
	"testing"

	"github.com/fenceline/fenceline/jobs/count"
)

func TestOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		n    int64
		noun string
		want string
	}{
		{0, "job", "0 jobs"}, {1, "job", "1 job"}, {2, "job", "2 jobs"}, {1, "delivery", "1 delivery"}, {3, "delivery", "3 deliveries"},
		{2, "key", "2 keys"}, {2, "day", "2 days"}, {2, "batch", "2 batches"}, {1, "row", "1 row"}, {-1, "row", "-1 rows"},
	} {
		if got := count.Of(c.n, c.noun); got != c.want {
			t.Errorf("%d of %q is %q, want %q", c.n, c.noun, got, c.want)
		}
	}
	if got := count.Verb(1, "is", "are") + count.Verb(2, "is", "are"); got != "isare" {
		t.Errorf("the verbs are %q", got)
	}
}
