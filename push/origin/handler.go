package origin

import "net/http"

// preflightAge is for how many seconds a browser keeps the answer to a preflight.
const preflightAge = "600"

// Handler returns a handler that answers preflights. Where the page of a request may use the node, it adds what a browser needs to show the page the
// answer, refusals too (Fetch standard, CORS protocol). It does not refuse other pages: next does. It may be called concurrently.
func (r *Rules) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		from := q.Header.Get("Origin")
		if from == "" || !r.Allow(q) {
			next.ServeHTTP(w, q)
			return
		}
		h := w.Header()
		h.Set("Access-Control-Allow-Origin", from)
		h.Set("Access-Control-Allow-Credentials", "true")
		h.Set("Access-Control-Expose-Headers", "Retry-After")
		h.Add("Vary", "Origin")
		if q.Method != http.MethodOptions || q.Header.Get("Access-Control-Request-Method") == "" {
			next.ServeHTTP(w, q)
			return
		}
		h.Set("Access-Control-Allow-Methods", "GET, POST")
		if fields := q.Header.Get("Access-Control-Request-Headers"); fields != "" {
			h.Set("Access-Control-Allow-Headers", fields) // what they say is not trusted
			h.Add("Vary", "Access-Control-Request-Headers")
		}
		h.Set("Access-Control-Max-Age", preflightAge)
		w.WriteHeader(http.StatusNoContent)
	})
}
