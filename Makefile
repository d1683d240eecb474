# Carillon. `make help` lists what there is.
SHELL := /bin/bash
.DEFAULT_GOAL := help
BIN := bin/carillon
TOOL := go tool -modfile=tools/go.mod

# The race detector needs a C compiler; without one the tests run without it, and say so.
CC_FOUND := $(shell command -v "$$(go env CC)" 2>/dev/null)
RACE := $(if $(CC_FOUND),-race)

# What "carillon version" says; empty outside of a repository.
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null)
COMMIT := $(shell git rev-parse HEAD 2>/dev/null)
STAMP := -X main.version=$(VERSION) -X main.commit=$(COMMIT)

GOBIN := $(shell go env GOBIN)
INSTALL_TO = $(if $(PREFIX),$(DESTDIR)$(PREFIX)/bin,$(if $(GOBIN),$(GOBIN),$(shell go env GOPATH)/bin))

help: ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: build ## build, and serve on ./carillon-data
	@exec $(BIN) serve

build: ## build bin/carillon (no C compiler needed)
	@mkdir -p bin
	CGO_ENABLED=0 go build -ldflags '$(STAMP)' -o $(BIN) ./cmd/carillon

install: build ## copy bin/carillon to PREFIX/bin; without PREFIX to where go install puts programs
	install -d $(INSTALL_TO)
	install -m 755 $(BIN) $(INSTALL_TO)/carillon
	@echo "installed $(INSTALL_TO)/carillon"

# The tests of chaos start whole clusters, judge times, and have the machine for themselves at the end. The
# timeouts only end what hangs. `make check` vets: go test need not do it again.
CHAOS := ./chaos
# Trials and kills of everything run with processes that the race detector watches. It makes a process several
# times as slow, and the other tests of chaos, each of one fault, would wait for little else.
WATCHED := 'TestTrial|OfAnyNode'
# Without the race detector: rules without goroutines, in which it could find nothing, and simulated worlds, of
# which there are four times as many then. Their loops run under the race detector in the tests of packages.
PURE := ./cron ./simulate
# These have tests of large backlogs and bursts too, which are built only without the race detector.
LARGE := ./internal/scheduler ./worker
# They take longest on one processor, and begin first.
LONG := ./adapter/postgres ./internal/scheduler ./adapter/mysql ./node ./worker
# Tests that wait for a database server leave a core free: one package more than there are cores runs at a
# time.
AT_ONCE := $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) + 1)))
# In GOFLAGS, so that the programs that tests build have the race detector too, and nothing is compiled twice.
# What a debugger would need takes time to compile, and is left out.
GOTEST = $(if $(RACE),CGO_ENABLED=1,CGO_ENABLED=0) \
  GOFLAGS="$$(go env GOFLAGS) $(if $(RACE),-race -gcflags=all=-dwarf=false $(WITHOUT_RACE))" \
  go test -vet=off -timeout 20m
PLAIN := CGO_ENABLED=0 go test -vet=off -timeout 20m
# The race detector watches our code, not the inside of SQLite: there it would take four times as long and
# find nothing of ours, for each connection belongs to one goroutine, and the code that hands it over is
# watched.
WITHOUT_RACE := $(foreach p,modernc.org/sqlite/lib modernc.org/libc,'-gcflags=$(p)=-race=false -dwarf=false')

test: servers ## all tests, against real database servers (CI=true: a missing one is an error)
ifeq ($(RACE),)
	@echo "!!! no C compiler found: running the tests WITHOUT the race detector" >&2
endif
	$(PLAIN) -tags failpoints ./internal/failpoint
	$(PLAIN) $(PURE) $(LARGE)
	$(GOTEST) -p $(AT_ONCE) $(LONG) $$(go list ./... | grep -vxF "$$(go list $(LONG) $(CHAOS) $(PURE))")
	$(GOTEST) $(CHAOS) -run $(WATCHED) -rate 60
	$(PLAIN) $(CHAOS) -skip $(WATCHED)
	cd bench/peers && $(GOTEST) . ./peer ./report

servers: ## install the database servers that tests need, where that may be done
	@tools/servers

check: ## formatting, vet, staticcheck, architecture
	@out=$$($(TOOL) gofumpt -l $$(git ls-files -co --exclude-standard '*.go')); \
	  if [ -n "$$out" ]; then echo "not formatted (make format):"; echo "$$out"; exit 1; fi
	go vet ./...
	cd bench/peers && go vet . ./peer ./result ./report ./carillon
	$(TOOL) staticcheck ./...
	go test -run 'TestArchitecture|TestLines' .

format: ## format all Go files
	@$(TOOL) gofumpt -w $$(git ls-files -co --exclude-standard '*.go')

SEEDS ?= 1000
simulate: ## clusters that fail by chance, in bubbles: SEEDS=1000 of them, or SEED=n exactly again, or NTH=1
ifdef NTH
	go test ./simulate -count=1 -timeout 0 -v -run TestAnyCall -nth $(NTH)
else
	go run ./simulate/player $(if $(SEED),-seed $(SEED),-seeds $(SEEDS) $(if $(FIRST),-first $(FIRST)))
endif

MINUTES ?= 5
chaos: servers ## real processes under faults, and a checker: MINUTES=5 or RUNS=100000 (limits), STORE=…, SEED=n
ifdef RUNS
	go test ./chaos -count=1 -timeout 0 -v -run '^TestLimitsAre' -limit-runs $(RUNS) \
	  $(if $(STORE),-store $(STORE)) $(if $(SEED),-seed $(SEED)) $(ARGS)
else
	go test ./chaos -count=1 -timeout 0 -v -run '^TestTrial$$' -minutes $(MINUTES) \
	  $(if $(STORE),-store $(STORE)) $(if $(SEED),-seed $(SEED)) $(ARGS)
endif

planted: ## plant bugs one at a time: tests must catch each of them; BUG="lease" for those with that in the name
	go run ./planted $(BUG)

bench: ## measure on this machine, e.g. ARGS="--store postgres" (see bench/README.md)
	go run ./bench $(ARGS)

bench-peers: ## measure beside others, e.g. PEERS=carillon-postgres,river (see bench/peers/README.md)
	cd bench/peers && go build -o ../../bin/bench-peers . && \
	  exec ../../bin/bench-peers $(if $(PEERS),--peers $(PEERS)) $(ARGS)

fuzz: ## a minute of every fuzz target
	@for p in $$(grep -rl --include=*_test.go '^func Fuzz' . | xargs -n1 dirname | sort -u); do \
	  for f in $$(grep -ho '^func Fuzz[A-Za-z]*' $$p/*_test.go | cut -d' ' -f2); do \
	    echo "== $$p $$f"; go test -run '^$$' -fuzz "^$$f$$" -fuzztime 60s $$p || exit 1; done; done

clean: ## remove what was built
	rm -rf bin

.PHONY: help run build install test servers check format simulate chaos planted bench bench-peers fuzz clean
