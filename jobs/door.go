package jobs

import "sync"

// door counts who is inside and can be closed. Unlike a [sync.WaitGroup] it may
// be entered while somebody waits for it to be empty. The zero value is open. It is
// safe for concurrent use.
type door struct {
	mu     sync.Mutex
	inside int
	empty  chan struct{} // closed when nobody is inside of a closed door; nil while it is open
	shut   bool          // nobody may enter any more
}

// enter reports whether one may; who did must leave.
func (d *door) enter() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.shut {
		return false
	}
	d.inside++
	return true
}

func (d *door) leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.inside--
	d.settle()
}

// count is how many are inside.
func (d *door) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.inside
}

// close answers a channel that is closed as soon as nobody is inside; from then
// on nobody may enter. Until then they may: what was on its way is let in.
func (d *door) close() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.empty == nil {
		d.empty = make(chan struct{})
	}
	d.settle()
	return d.empty
}

func (d *door) settle() {
	if d.empty != nil && d.inside == 0 && !d.shut {
		d.shut = true
		close(d.empty)
	}
}
