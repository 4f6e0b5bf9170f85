package admission

import "sync"

// Users counts the sessions of each user. The zero Users is ready. Its methods may be called concurrently.
type Users struct {
	mu       sync.Mutex
	sessions map[string]int // guarded by mu; without users that have none
}

// Enter counts a session of a user, and returns how many the user has now. The caller calls Leave once for it.
func (u *Users) Enter(user string) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.sessions == nil {
		u.sessions = map[string]int{}
	}
	u.sessions[user]++
	return u.sessions[user]
}

// Leave gives up a session that was counted.
func (u *Users) Leave(user string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.sessions[user]--; u.sessions[user] <= 0 {
		delete(u.sessions, user)
	}
}

// Len returns how many users have sessions.
func (u *Users) Len() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.sessions)
}
