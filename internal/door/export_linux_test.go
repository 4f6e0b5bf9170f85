package door

// Break makes the next call of Admit fail.
func (d *Door) Break() { d.acceptor.Close() }
