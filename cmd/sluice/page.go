package main

import (
	"embed"
	"io/fs"
	"net/http"
)

// The page is served from a bundle that is built from page/src and committed. So Node.js is needed to change the page, but not to build or run
// the command: make deps installs what the lines below need.
//
//go:generate node page/src/node_modules/typescript/bin/tsc --project page/src
//go:generate go tool -modfile=../../tools/tools.mod esbuild page/src/page.ts --bundle --minify --charset=utf8 --target=es2020 --legal-comments=inline --outdir=page --log-level=warning

// pageFiles is the page of the demo. page.js contains third-party packages, see NOTICE.
//
//go:embed page/index.html page/icon.svg page/page.css page/page.js
var pageFiles embed.FS

// pageHandler returns a handler that serves the demo's page.
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
