// Command websocket-chat is a chat in the browser: a page at /ROOM for each room, and a WebSocket at /live/ROOM?name=NAME. Nothing is
// kept: who comes hears what is said from then on.
//
// What a client sends is text, what it gets is JSON (see [event]). It is closed with one of these codes:
//
//	1001  the server ends
//	1009  a message had more than 1,000 bytes
//	1013  the room is full
//	4000  the room or the name is not one: 1 to 20 letters, digits, dashes and underscores
//	4001  somebody in the room has that name
//	4008  it has not read what was said as fast as the others talk
package main

import (
	"context"
	"embed"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"time"

	"github.com/sluice-push/sluice/examples/internal/run"
	"github.com/sluice-push/sluice/session"
	"github.com/sluice-push/sluice/websocket"
)

//go:embed page
var page embed.FS

func main() {
	app := run.Start("127.0.0.1:7007")
	live := newServer(&websocket.Options{
		MaxMessage:  1000,
		Ping:        30 * time.Second,
		Compression: &websocket.Compression{}, // without context: one frame is everybody's
		Session: session.Options{
			MaxSessions: 1000,
			Policy:      session.Refuse, // nobody waits for who reads slowly
			SendBuffer:  32 << 10,       // what the kernel keeps for a slow reader nobody counts
			Linger:      10 * time.Second,
		},
	})
	web := &http.Server{Handler: paths(live), ReadHeaderTimeout: 10 * time.Second}
	app.AtEnd(func(ctx context.Context) error {
		return errors.Join(web.Shutdown(ctx), live.Shutdown(ctx))
	})
	err := web.Serve(app.Listener)
	if errors.Is(err, http.ErrServerClosed) {
		err = net.ErrClosed
	}
	app.Exit(err)
}

// paths is what there is.
func paths(live http.Handler) http.Handler {
	files, err := fs.Sub(page, "page")
	if err != nil {
		panic(err) // the folder is part of the program
	}
	mux := http.NewServeMux()
	mux.Handle("GET /live/{room}", live)
	mux.Handle("GET /page/", http.StripPrefix("/page/", http.FileServerFS(files)))
	mux.HandleFunc("GET /{room}", func(w http.ResponseWriter, r *http.Request) {
		if !nameForm.MatchString(r.PathValue("room")) {
			http.Error(w, "a room has 1 to 20 letters, digits, dashes and underscores", http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Security-Policy", "default-src 'self'")
		http.ServeFileFS(w, r, files, "chat.html")
	})
	mux.Handle("GET /{$}", http.RedirectHandler("/lobby", http.StatusFound))
	return mux
}
