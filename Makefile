# Gatehouse: everything a person or CI starts. Needs Rust, a C compiler, git, and Node with npm; whatever else is
# wanted (Claude Code, other people's MCP clients) goes into the build folder and nowhere else.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

export CARGO_TARGET_DIR ?= $(CURDIR)/target
BUILD := $(CARGO_TARGET_DIR)
BIN := $(BUILD)/debug

# Claude Code: exactly the verified version, its files checked by npm against the lock file, no install scripts.
CLAUDE_HOME := $(BUILD)/claude-code
CLAUDE_PACKAGE := claude-code-$(shell node -p '(process.platform)+"-"+(process.arch)' 2>/dev/null)
CLAUDE_MUSL := $(if $(wildcard /lib/ld-musl-*),-musl,)
INSTALLED_CLAUDE := $(CLAUDE_HOME)/node_modules/@anthropic-ai/$(CLAUDE_PACKAGE)$(CLAUDE_MUSL)/claude
export CLAUDE_BIN ?= $(INSTALLED_CLAUDE)

NPM := npm --cache $(BUILD)/npm-cache --no-audit --no-fund --no-update-notifier --ignore-scripts
FOREIGN_HOME := $(BUILD)/foreign
BENCH_PEERS := $(BUILD)/bench-peers

# A launcher without the C library's start-up code, for which Rust has a target of its own.
MUSL := $(shell uname -m)-unknown-linux-musl
STATIC_LAUNCHER := $(BUILD)/$(MUSL)/release/sandbox-launch
INSTALLED := installed_read installed_prompts installed_replay installed_retries installed_commands \
	installed_direct_write installed_write installed_undo installed_skills installed_deepseek installed_tunnel \
	installed_export fail_points killed_writes guarded_reads real_projects confinement runners chaos
SURFACE := contract cli services doctor metrics house documents many_sessions
FOREIGN := foreign foreign_projects foreign_report foreign_automation services_instance
ROUNDS ?= 5
# Some two hours.
CHAOS_ROUNDS ?= 2000
DIST ?= x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu aarch64-apple-darwin

.PHONY: help
help: ## This list
	@echo 'Gatehouse. Targets:'
	@grep -E '^[a-z-]+:.*## ' $(firstword $(MAKEFILE_LIST)) | sort | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 34

.PHONY: build
build: ## Build all binaries (debug)
	cargo build --locked --workspace --bins

.PHONY: claude
claude: $(CLAUDE_BIN) ## Bring Claude Code 2.1.247 into the build folder

$(INSTALLED_CLAUDE): tests/claude-code/package.json tests/claude-code/package-lock.json
	mkdir -p $(CLAUDE_HOME)
	cp $^ $(CLAUDE_HOME)/
	cd $(CLAUDE_HOME) && $(NPM) ci
	touch $@

.PHONY: demo
demo: build claude ## A whole session of the real Claude Code on this repository, with a scripted ChatGPT
	$(BIN)/gatehouse demo

.PHONY: up
up: build claude ## Start the gateway in the foreground
	@$(MAKE) --no-print-directory launcher
	$(BIN)/gatehouse up

.PHONY: doctor
doctor: build claude ## Look at everything that a gateway from this folder needs
	$(BIN)/gatehouse doctor

.PHONY: install
install: build claude ## Two services of your own user with the binaries of this folder
	$(BIN)/gatehouse install

.PHONY: test
test: build claude ## All tests of our own: units, the surface, the installed suite
	@rm -f $(BUILD)/skipped.txt
	cargo test --locked --workspace --exclude gatehouse-tests
	cargo test --locked -p gatehouse-tests --lib $(SURFACE:%=--test %)
	@$(MAKE) --no-print-directory installed
	@$(MAKE) --no-print-directory skipped
	@echo 'make test: units passed'
	@echo 'make test: surface passed ($(SURFACE))'
	@echo 'make test: installed suite passed ($(INSTALLED))'

.PHONY: test-installed
test-installed: build claude ## The suite with the real Claude Code
	@rm -f $(BUILD)/skipped.txt
	@$(MAKE) --no-print-directory installed
	@$(MAKE) --no-print-directory skipped
	@echo 'make test-installed: passed ($(INSTALLED))'

.PHONY: test-installed-write test-installed-direct-write test-installed-skills
test-installed-write: build claude ## Only the suite that changes a worktree with the real Claude Code
	cargo test --locked -p gatehouse-tests --test installed_write
test-installed-direct-write: build claude ## Only the suite that changes a real directory with it
	cargo test --locked -p gatehouse-tests --test installed_direct_write --test installed_undo
test-installed-skills: build claude ## Only the suite about skills with it
	cargo test --locked -p gatehouse-tests --test installed_skills

.PHONY: test-installed-deepseek
test-installed-deepseek: build claude ## Only the suite of the DeepSeek subagent, with a DeepSeek on loopback
	cargo test --locked -p gatehouse-tests --test installed_deepseek

.PHONY: smoke-deepseek
smoke-deepseek: ## One small task for the real DeepSeek: costs money, asks first, never in CI
	@tests/smoke-deepseek $(MAKE) --no-print-directory smoke-deepseek-now

.PHONY: smoke-deepseek-now
smoke-deepseek-now: build claude
	cargo test --locked -p gatehouse-tests --features smoke --test smoke_deepseek -- --nocapture

.PHONY: installed
installed:
	cargo test --locked -p runner-shim --test claude
	cargo test --locked -p gatehouse-tests $(addprefix --test ,$(filter-out runners chaos,$(INSTALLED)))
	@# Most of them wait for a lease to run out, and do so at the same time.
	cargo test --locked -p gatehouse-tests --test runners -- --test-threads 8
	cargo test --locked -p gatehouse-tests --test chaos -- --nocapture

.PHONY: skipped
skipped:
	@if [ -s $(BUILD)/skipped.txt ]; then \
		echo "Skipped, $$(wc -l < $(BUILD)/skipped.txt) tests, by what they lack:"; sed 's/^/  /' $(BUILD)/skipped.txt; \
	else echo 'Skipped: none'; fi

.PHONY: test-foreign
test-foreign: build claude $(FOREIGN_HOME)/ready ## Other people's MCP clients against our front (npm and PyPI)
	@rm -f $(BUILD)/skipped.txt
	.ci/bring-chromium $(BUILD)
	cargo build --locked -p gatehouse --examples
	FOREIGN_HOME=$(FOREIGN_HOME) cargo test --locked -p gatehouse-tests --features foreign $(FOREIGN:%=--test %)
	@$(MAKE) --no-print-directory skipped
	@echo 'make test-foreign: passed'

$(FOREIGN_HOME)/ready: tests/foreign/package.json tests/foreign/package-lock.json tests/foreign/requirements.txt
	mkdir -p $(FOREIGN_HOME)
	cp $^ $(FOREIGN_HOME)/
	# Not `npm ci`: one optional package of Windows, which nobody publishes any more, is not in any lock file.
	cd $(FOREIGN_HOME) && $(NPM) install
	@if python3 -c 'import ensurepip, venv' 2>/dev/null; then \
		python3 -m venv --clear $(FOREIGN_HOME)/venv && \
		$(FOREIGN_HOME)/venv/bin/python -m pip install --quiet --disable-pip-version-check --no-cache-dir \
			--only-binary :all: -r tests/foreign/requirements.txt; \
	else echo 'Python 3 with venv is missing: the Python client will not be tested'; fi
	touch $@

.PHONY: soak
soak: build claude ## The installed suite again and again (ROUNDS=5), long properties, deep models, chaos (CHAOS_ROUNDS=2000), 200 sessions
	MANY_SESSIONS=200 MANY_SECONDS=60 cargo test --locked -p gatehouse-tests --test many_sessions -- --nocapture
	CHAOS_ROUNDS=$(CHAOS_ROUNDS) cargo test --locked -p gatehouse-tests --test chaos -- --nocapture
	MODEL=deep cargo test --locked -p executor-svc --test model
	PROPTEST_CASES=100000 cargo test --locked -p executor-svc --lib
	KILLS=10000 cargo test --locked -p gatehouse-tests --test killed_writes -- --nocapture
	KILLS=300 cargo test --locked -p executor-svc --test storage killed
	PROPTEST_CASES=20000 cargo test --locked -p executor-svc --test engine damage -- --nocapture
	@for round in $$(seq 1 $(ROUNDS)); do echo "soak: round $$round of $(ROUNDS)"; \
		CHAOS_ROUNDS=60 $(MAKE) --no-print-directory installed; done
	@echo 'make soak: $(ROUNDS) rounds passed'

# Each piece keeps its tables in the build folder's bench/; `bench-tables` puts what lies there into docs/performance.md.
# GATEHOUSE_BENCH_COMPARE=1: whoever cannot find what it compares with, fails.
BENCH := turns calls first weight many search search-cold ledger writes writes-slow launch
BENCH_TREE := $(BUILD)/bench-tree
export GATEHOUSE_BENCH_PEERS := $(BENCH_PEERS)

.PHONY: bench
bench: bench-build ## Measure everything beside its peers, and put the figures into docs/performance.md (release build)
	@for piece in $(BENCH); do $(MAKE) --no-print-directory bench-$$piece; done
	@$(MAKE) --no-print-directory bench-tables

.PHONY: bench-build
bench-build: claude $(BENCH_PEERS)/ready ## Build and bring what the benches need, and measure nothing
	cargo build --locked --release --workspace --bins
	@$(MAKE) --no-print-directory launcher
	cargo bench --locked --no-run -p gatehouse-tests --benches
	cargo bench --locked --no-run -p executor-svc --bench writes
	cargo bench --locked --no-run -p gatehouse-sandbox --bench launch
	cargo test --locked --release --no-run -p gatehouse-tests --test many_sessions
	cargo build --locked --release -p executor-svc --examples
	$(BUILD)/release/examples/search_bench make $(BENCH_TREE)

.PHONY: $(BENCH:%=bench-%) bench-tables
bench-turns: ## Turns: from Claude Code's request to ChatGPT and back
	cargo bench --locked -p gatehouse-tests --bench turns
bench-calls: ## A small Read and a small Write, beside other servers of files
	cargo bench --locked -p gatehouse-tests --bench calls
bench-first: ## From a start to the first pending turn
	cargo bench --locked -p gatehouse-tests --bench first_turn
bench-weight: ## Memory, sizes of the binaries, cold starts
	cargo bench --locked -p gatehouse-tests --bench weight
bench-many: ## 200 sessions that wait
	GATEHOUSE_BENCH_FIGURES=$(BUILD)/bench MANY_SESSIONS=200 MANY_SECONDS=15 MANY_WATCHED=60 \
		cargo test --locked --release -p gatehouse-tests --test many_sessions -- --nocapture
bench-search: ## Searching with a warm cache
	$(BUILD)/release/examples/search_bench run $(BENCH_TREE)
bench-search-cold: ## Searching with a cold one; only root can empty it
	if [ "$$(id -u)" = 0 ]; then $(BUILD)/release/examples/search_bench run $(BENCH_TREE) --cold; \
	else echo 'bench-search-cold: only root can empty the page cache; not measured'; fi
bench-ledger: ## A ledger of a million entries
	$(BUILD)/release/examples/ledger_bench $(BUILD)
bench-writes: ## Changing files
	cargo bench --locked -p executor-svc --bench writes
# strace holds back the end of each fsync and fdatasync, and sees no other call.
SLOW_FSYNC_US := 2000
SLOW_FSYNC := strace --follow-forks --seccomp-bpf -qq -o /dev/null -e trace=fsync,fdatasync -e inject=fsync,fdatasync:delay_exit=$(SLOW_FSYNC_US)
bench-writes-slow: ## Changing files, where each fsync takes 2 ms longer, as on an ordinary disk (needs strace)
	if command -v strace >/dev/null; then GATEHOUSE_BENCH_SLOW=1 GATEHOUSE_BENCH_ROUNDS=$${GATEHOUSE_BENCH_ROUNDS:-100} \
		cargo bench --locked -p executor-svc --bench writes --config "target.'cfg(all())'.runner='$(SLOW_FSYNC)'"; \
	else echo 'bench-writes-slow: strace is not installed; not measured'; fi
bench-launch: ## Launching in the sandbox
	launchers=$(BUILD)/release/sandbox-launch; \
	if [ -x $(STATIC_LAUNCHER) ]; then launchers+=:$(STATIC_LAUNCHER); fi; \
	GATEHOUSE_BENCH_LAUNCHER=$$launchers cargo bench --locked -p gatehouse-sandbox --bench launch
bench-tables: ## Put the figures that were kept into docs/performance.md
	cargo run --locked --quiet --release -p gatehouse-figures -- docs/performance.md

# Other people's programs, to be measured beside ours.
$(BENCH_PEERS)/ready: sandbox/benches/peers/package.json sandbox/benches/peers/package-lock.json
	mkdir -p $(BENCH_PEERS)
	cp $^ $(BENCH_PEERS)/
	cd $(BENCH_PEERS) && $(NPM) ci
	touch $@

.PHONY: launcher
launcher: ## Put a static sandbox-launch, which starts faster, beside the binaries that are built (Linux)
	@if command -v rustup >/dev/null; then rustup target add $(MUSL) >/dev/null 2>&1 || true; fi; \
	if ! [ -d "$$(rustc --print target-libdir --target $(MUSL) 2>/dev/null)" ]; then \
		echo "make launcher: Rust has no standard library for $(MUSL) here; the ordinary launcher stays"; exit; \
	fi; \
	echo 'make launcher: building a launcher that starts faster (long only the first time)'; \
	cargo build --locked --release --target $(MUSL) -p gatehouse-sandbox --bin sandbox-launch; \
	for folder in $(BUILD)/debug $(BUILD)/release; do \
		if [ -x $$folder/sandbox-launch ]; then \
			install -m 755 $(STATIC_LAUNCHER) $$folder/sandbox-launch; echo "make launcher: $$folder/sandbox-launch is static"; \
		fi; \
	done

.PHONY: lint
lint: ## Format check and clippy, warnings denied
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets --features gatehouse-tests/foreign,gatehouse-tests/smoke -- -D warnings

.PHONY: check-macos
check-macos: ## Type-check everything for macOS (brings what it needs into the build folder)
	@rm -f $(BUILD)/skipped.txt
	.ci/check-target $(BUILD) aarch64-apple-darwin
	@$(MAKE) --no-print-directory skipped

.PHONY: check-arm
check-arm: ## The same for Linux on 64-bit ARM
	@rm -f $(BUILD)/skipped.txt
	.ci/check-target $(BUILD) aarch64-unknown-linux-gnu
	@$(MAKE) --no-print-directory skipped

.PHONY: dist
dist: ## Release archives for Linux and (never run) macOS, with their hashes, in the build folder's dist/
	.ci/dist $(BUILD) $(DIST)

.PHONY: dist-check
dist-check: claude ## Look into those archives, and work with the one for this machine in an empty directory
	.ci/dist-check $(BUILD) $(CLAUDE_BIN)

.PHONY: fmt
fmt: ## Format
	cargo fmt --all
