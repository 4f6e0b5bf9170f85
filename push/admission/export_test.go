package admission

// Addresses returns how many addresses are remembered.
func (r *Ramp) Addresses() int { return len(r.recent) + len(r.old) }
