package jobs

import (
	"sync"
	"testing"
)

// However many come while the door is being closed: who is let in is waited for,
// and nobody is let in afterwards.
func TestDoor(t *testing.T) {
	t.Parallel()
	for range 200 {
		var d door
		var wg sync.WaitGroup
		var mu sync.Mutex
		inside, over := 0, false
		for range 8 {
			wg.Go(func() {
				if !d.enter() {
					return
				}
				mu.Lock()
				if inside++; over {
					t.Error("somebody came in after the end")
				}
				mu.Unlock()
				mu.Lock()
				inside--
				mu.Unlock()
				d.leave()
			})
		}
		<-d.close()
		mu.Lock()
		if over = true; inside != 0 {
			t.Errorf("%d are inside", inside)
		}
		mu.Unlock()
		wg.Wait()
		if d.enter() {
			t.Error("a closed door was entered")
		}
		<-d.close() // again does no harm
	}
}
