# The commands of this repository. `make` lists them. What takes more than a line is a script in tools/, which can be run alone.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# How long make fuzz fuzzes each target.
FUZZTIME ?= 60s
# Which benchmarks `make bench` runs, how often, and where: BENCH=Append COUNT=10 PKG=./push/channel.
BENCH ?= .
COUNT ?= 1
PKG ?= ./...
# More arguments for make bench-library, bench-websocket, bench-push and profile-push: BENCHFLAGS='-servers c,sluice-loop -seconds 2'.
BENCHFLAGS ?=
# Which cells the first three measure, all when empty: CELLS=e100,p1000.
CELLS ?=
# Which cases and sides make autobahn runs: CASES='1.* 12.3.*' DIRECTION=client; all without them.
CASES ?=
DIRECTION ?=
# More arguments for make laws-data: LAWSFLAGS='-speed 4 -stall 20s'.
LAWSFLAGS ?=
# More arguments for go test: TESTFLAGS='-run Resume -v'.
TESTFLAGS ?=
# Folders with a package-lock.json whose packages tests and generated files need; those that do not exist are passed over.
NODE_DIRS ?= push/gateway/testdata/sdk push/delta/testdata/node cmd/sluice/page/src sdk/js tools/interop/testdata/node rpc/interop/testdata/node
# Folders with a requirements.txt, likewise.
PYTHON_DIRS ?= push/gateway/testdata/python examples/clients/grpc-python rpc/interop/testdata/python

# Where `make interop` has cargo build the peer in Rust.
INTEROP_CARGO := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/sluice/interop

# Every module of the repository but the tools, which nothing links.
MODULES := $(shell find . -name go.mod -not -path '*/testdata/*' -not -path '*/node_modules/*' -not -path './tools/*' \
	-exec dirname {} + | sort)
# What is formatted: everything but what npm may have brought along.
FORMATTED := $(wildcard *.go) $(patsubst %/,%,$(filter-out bin/ sdk/,$(wildcard */)))
# A pinned tool, from any folder: $(TOOL) gofumpt.
TOOL := go tool -modfile=$(CURDIR)/tools/tools.mod
# Runs a command in every module.
each = for m in $(MODULES); do (cd $$m && $(1)); done

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: deps
deps: ## Install what building and testing need and this machine lacks
	@NODE_DIRS="$(NODE_DIRS)" PYTHON_DIRS="$(PYTHON_DIRS)" MODULES="$(MODULES) push/gateway/testdata/go" tools/deps

.PHONY: run
run: ## Start a node with a demo feed on 127.0.0.1:8000
	go run ./cmd/sluice serve --demo --listen 127.0.0.1:8000

.PHONY: build
build: ## Build every module, and the binary as bin/sluice
	@$(call each,go build -o /dev/null ./...)
	@if [ -d cmd/sluice ]; then go build -o bin/sluice ./cmd/sluice; fi

# The tests of the command, which run nodes, browsers and SDKs on every transport, take as long as many packages: the others run beside them. Many tests
# mostly wait, so one package more than there are processors is tested at a time.
.PHONY: test
test: deps ## Run all tests with the race detector, in random order
	@$(call each,$(CURDIR)/tools/test -race -shuffle=on -p $$(($$(getconf _NPROCESSORS_ONLN) + 1)) -timeout 30m $(TESTFLAGS) ./...)

.PHONY: stress
stress: ## Run all tests, or those of PKG, COUNT times under the race detector on a busy machine; hours, but it goes on where it ended
	@PKG="$(filter-out ./...,$(PKG))" tools/stress

.PHONY: check
check: ## Everything that has to hold before a change is handed in
	@tools/check

.PHONY: readme
readme: deps ## Run every code block of README.md, the guides and the examples' README in a clean clone of HEAD
	go run ./tools/readme -timeout 30m README.md
	for f in docs/*.md examples/README.md; do go run ./tools/readme -timeout 10m "$$f" || exit 1; done

# The long trials, which take some five hours on two processors. They go on after a failure, and end with what failed.
.PHONY: proof
proof: ## Run every long trial in turn; five hours
	@failed=; for trial in proof-session proof-delta proof-websocket proof-hostile proof-cutoff proof-rpc proof-replay laws-data interop laws-planted laws autobahn fuzz; do \
		$(MAKE) $$trial || failed="$$failed $$trial"; done; \
	[ -z "$$failed" ] || { echo "proof: failed:$$failed" >&2; exit 1; }

.PHONY: proof-cutoff
proof-cutoff: ## Cut gateways, hubs and NATS off from each other for a minute, in each direction; Linux, four minutes
	SLUICE_CUT=60s go test -race -count 1 -timeout 30m -v -run '^Test(Gateway|Hub)CutOff$$' ./cmd/sluice

.PHONY: proof-rpc
proof-rpc: ## Make CALLS calls, ten million by default, while they are canceled and too late, connections cut and servers restarted; an hour
	go test -race -count 1 -timeout 4h -v -run '^TestRandomCalls$$' ./rpc -rpc.calls $(or $(CALLS),10000000)

.PHONY: proof-replay
proof-replay: ## Replay the full recordings in SLUICE_DATA to 70 clients of a node and of a cluster, with cuts and kills; twenty minutes
	go test -tags proof -count 1 -timeout 40m -v -run '^TestProof(Replay|Cluster)$$' ./cmd/sluice

.PHONY: laws-data
laws-data: ## Publish the order books in SLUICE_DATA to clients that are slow in all ways, and compare every row; five minutes
	@: "$${SLUICE_DATA:?has to be the folder of the full recordings}"; go build -o bin/sluice ./cmd/sluice; \
	go run ./cmd/sluice/internal/booktrial -data "$$SLUICE_DATA/binance-2024-08-08" $(LAWSFLAGS)

.PHONY: proof-session
proof-session: ## Close 15,000 sessions by Shutdown, on both engines
	go test -tags proof -count 1 -timeout 20m -v -run '^TestProof' ./session

.PHONY: proof-delta
proof-delta: ## Send 100,000 recorded updates to the official JavaScript SDK, with and without differences; two minutes
	SLUICE_UPDATES=100000 go test -count 1 -timeout 20m -v -run '^TestSDK$$/^getsTheSameAsDeltas$$' ./cmd/sluice

# How long make laws goes on: DURATION=1h. From which seed: TESTFLAGS='-laws.seed 1000'.
DURATION ?= 10m

.PHONY: laws
laws: ## Try the laws of docs/laws.md with one seed after the other, for DURATION
	go test -count 1 -timeout 0 -v -run '^TestLaws$$' ./push/laws -laws.duration $(DURATION) $(TESTFLAGS)

.PHONY: laws-planted
laws-planted: ## Plant bugs one by one, and see that the laws find each; half an hour
	go run ./tools/planted -timeout 8m -flags '-laws.duration 3m -laws.patience 10s $(TESTFLAGS)' push/laws

.PHONY: proof-websocket
proof-websocket: ## Open and close a million WebSocket connections, in all ways, and see that nothing is left
	go test -tags proof -count 1 -timeout 30m -v -run '^TestOpensAndCloses$$' ./websocket

.PHONY: autobahn
autobahn: ## Run the Autobahn testsuite against servers and clients of package websocket; half an hour on two processors
	@env=$$(tools/autobahn-env) && go run ./tools/autobahn -env "$$env" -cases '$(CASES)' -direction '$(DIRECTION)'

.PHONY: bench-library
bench-library: ## Compare package session with a loop in C, package net and netpoll; a quarter of an hour on a quiet machine
	@cd bench && go run ./library $(if $(CELLS),-cells $(CELLS)) $(BENCHFLAGS)

.PHONY: bench-websocket
bench-websocket: ## Compare package websocket with a loop in C and five other packages; 25 minutes on a quiet machine
	@cd bench && go run ./websocket $(if $(CELLS),-cells $(CELLS)) $(BENCHFLAGS)

.PHONY: bench-push
bench-push: ## Compare the command sluice with a loop in C, a plain hub in Go and NATS, links with gRPC, and several servers; an hour on a quiet machine
	@cd bench && go run ./push $(if $(CELLS),-cells $(CELLS)) $(BENCHFLAGS)

.PHONY: proof-hostile
proof-hostile: ## Attack the library and the command sluice, and see what others notice: clients that do not read, ever new names, bad tokens, half-open connections; seven minutes
	@cd bench && go run ./hostile $(BENCHFLAGS)

.PHONY: profile-push
profile-push: ## Profile the command sluice while it sends to 10,000 clients and while 15,000 are idle; two minutes
	@cd bench && go run ./push profile $(BENCHFLAGS)

.PHONY: interop
interop: export CARGO_TARGET_DIR = $(INTEROP_CARGO)
interop: ## Run what make test leaves out: clients of package websocket, the SDK for Java, the newest etcd
	@NODE_DIRS=tools/interop/testdata/node PYTHON_DIRS=tools/interop/testdata/python \
	CARGO_DIRS=tools/interop/testdata/rust JAVA_DIRS=push/gateway/testdata/java MODULES=. tools/deps
	@cd tools/interop && go vet -tags interop . && go test -tags interop -count 1 -timeout 20m $(TESTFLAGS)
	@go vet -tags interop ./cmd/sluice && go test -tags interop -count 1 -timeout 10m -run '^TestJava$$' ./cmd/sluice
	@cd tools/etcd && go build -o ../../bin/etcd . && cd ../.. && ETCD=$(CURDIR)/bin/etcd go test -count 1 -timeout 10m ./discovery/etcd

.PHONY: bench-transports
bench-transports: ## Compare what each transport and form of the command sluice costs; half an hour on a quiet machine
	@cd bench && go run ./transports $(BENCHFLAGS)

.PHONY: bench-storm
bench-storm: ## Cut 15,000 clients with ES256 tokens at once, with limits.connects and without; a quarter of an hour on a quiet machine
	@cd bench && go run ./storm $(BENCHFLAGS)

.PHONY: bench-cluster
bench-cluster: ## Measure a cluster under 10,000 clients: gateways that join and leave, routes, a restart of all nodes, costs; forty minutes
	@cd bench && go run ./cluster $(BENCHFLAGS)

.PHONY: bench-tls
bench-tls: ## Measure what TLS costs the command sluice: memory of 10,000 idle clients, and handshakes; five minutes on a quiet machine
	@cd bench && go run ./tls $(BENCHFLAGS)

.PHONY: bench-rpc
bench-rpc: ## Compare calls over package rpc with net/rpc, grpc-go, Apache Thrift and a loop in C; twenty minutes on a quiet machine
	@cd bench && go run ./rpc $(BENCHFLAGS)

.PHONY: bench-sidecar
bench-sidecar: ## Compare the example sidecar, a proxy of calls, with proxies that use io.Copy; ten minutes
	@cd bench && go run ./sidecar $(if $(CELLS),-cells $(CELLS)) $(BENCHFLAGS)

.PHONY: bench-workerpool
bench-workerpool: ## Measure what a task costs on each executor, and when it starts, beside goroutines and channels
	@go test -run '^$$' -bench . -count $(COUNT) -timeout 30m ./workerpool

.PHONY: bench-rate
bench-rate: ## Measure what subscriptions with a shortest interval cost, idle and while they conflate
	@go test -run '^$$' -bench 'Rate|Pacer' -benchmem -count $(COUNT) -timeout 30m ./push/hub ./push/pace

.PHONY: bench-bounded
bench-bounded: ## Measure what 500 of 5,000 clients that read nothing for five minutes cost the node and the others; 25 minutes
	@cd bench && go run ./push -cells stalled -stall 5m -around 1m $(BENCHFLAGS)

.PHONY: bench
bench: ## Run benchmarks: BENCH, COUNT and PKG choose them
	@$(call each,go test -run '^$$' -bench '$(BENCH)' -benchmem -count $(COUNT) -timeout 30m $(PKG))

.PHONY: bench-once
bench-once: ## Run every benchmark once, to see that it works
	@$(call each,go test -run '^$$' -bench . -benchtime 1x -timeout 10m ./...)

.PHONY: figures
figures: ## Measure the command as users run it, for some minutes, on a machine that has nothing else to do
	@SLUICE_FIGURES=full go test -run '^$$' -bench Figures -benchtime 1x -timeout 60m ./cmd/sluice

.PHONY: fuzz
fuzz: ## Fuzz every target for FUZZTIME, a minute; half an hour on two processors. The seeds and found inputs are run by make test
	@FUZZTIME=$(FUZZTIME) tools/fuzz

# The linter's cache names files by their full path: results of another copy of the same code, since removed, are reported without looking
# at the remarks beside them. So each copy has its own.
.PHONY: lint
lint: ## Run golangci-lint in every module
	@$(call each,GOLANGCI_LINT_CACHE=$(CURDIR)/bin/lint $(TOOL) golangci-lint run --config $(CURDIR)/.golangci.yml ./...)

.PHONY: vet
vet: ## Run go vet in every module
	@$(call each,go vet ./...)

# Systems and processors besides this one for which everything has to compile, and those of which only the library knows anything that others do
# not.
OTHERS := linux/386 darwin/arm64 windows/amd64
OTHERS_OF_LIBRARY := linux/arm64 freebsd/amd64 netbsd/amd64 openbsd/amd64
LIBRARY := ./timingwheel ./workerpool ./codec ./transport/... ./session ./reconnect ./rpc/... ./websocket/... \
	$(patsubst %,./internal/%,buffer datagram deflate eventloop goroutineconn sockopt tlsmem writer proxydial)

.PHONY: vet-others
vet-others: ## Run go vet for other systems and processors, but for the benchmark, whose peers are not for all, and the tests of deploy
	@for o in $(OTHERS); do echo "$$o"; for m in $(filter-out ./bench ./deploy/check,$(MODULES)); do \
	(cd $$m && GOOS=$${o%/*} GOARCH=$${o#*/} go vet ./...); done; done; \
	for o in $(OTHERS_OF_LIBRARY); do echo "$$o, the library"; GOOS=$${o%/*} GOARCH=$${o#*/} go vet $(LIBRARY); done

.PHONY: test-386
test-386: ## Run the tests of the library on 386, and print how much they cover
	@tools/test-386

.PHONY: layers
layers: ## Check the direction of imports, sizes and habits
	go test -count=1 .

.PHONY: fmt
fmt: ## Format all Go files
	@$(TOOL) gofumpt -l -w $(FORMATTED)

.PHONY: fmt-check
fmt-check: ## Fail if a Go file is not formatted
	@unformatted=$$($(TOOL) gofumpt -l $(FORMATTED)); \
	if [ -n "$$unformatted" ]; then printf 'not formatted, run make fmt:\n%s\n' "$$unformatted"; exit 1; fi

.PHONY: generate
generate: deps ## Make the generated files anew
	@$(call each,go generate ./...)

.PHONY: generate-check
generate-check: ## Fail if make generate changes a file
	@state() { git diff HEAD --binary; git status --porcelain; }; \
	before=$$(state | sha256sum); $(MAKE) generate; after=$$(state | sha256sum); \
	if [ "$$before" != "$$after" ]; then echo 'generated files were out of date, commit these:'; git status --short; exit 1; fi

.PHONY: clean
clean: ## Remove what was built
	rm -rf bin
