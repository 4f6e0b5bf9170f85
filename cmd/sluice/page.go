package main

import (
	"embed"
	"io/fs"
	"net/http"
)

// pageFiles is the page of the demo. centrifuge.js is the browser build of the npm package centrifuge, see NOTICE.
//
//go:generate cp ../../push/gateway/testdata/sdk/node_modules/centrifuge/dist/centrifuge.js page/centrifuge.js
//go:embed page
var pageFiles embed.FS

// pageHandler serves the demo's page.
func pageHandler() http.Handler {
	files, err := fs.Sub(pageFiles, "page")
	if err != nil {
		panic(err) // the folder is embedded
	}
	serve := http.FileServerFS(files)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'self'; frame-ancestors 'none'")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-cache")
		serve.ServeHTTP(w, r)
	})
}
