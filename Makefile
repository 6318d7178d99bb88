# Seqferry: what a developer and the continuous integration run. `make help` lists the targets.
#
# Everything that is made lives in the checkout and is ignored by git: .venv (Python packages and the `seqferry`
# command), .tools (servers and instruments for tests and benches), target (Rust). `make clean` removes it all.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules --no-print-directory

PYTHON ?= python3
CARGO ?= cargo
GO ?= go
VENV := .venv
BIN := $(VENV)/bin
TOOLS := .tools/bin
TARGET := $(or $(CARGO_TARGET_DIR),target)

VERSITYGW_VERSION := v1.8.0
HELM_VERSION := v3.22.0
KUBECONFORM_VERSION := v0.8.0
# The last version of MinIO: its repository is archived. AGPL-3.0: the tests talk to it, nothing of it is shipped.
MINIO_VERSION := v0.0.0-20260212201848-7aac2a2c5b7c
# AGPL-3.0 as well, and only for `make compat`. It compiles for half an hour.
GARAGE_VERSION := 2.5.0
GAUL_S3PROXY_VERSION := 4.1.0
# BSD-2-Clause and APSL-2.0: tests run them, nothing of them is shipped.
PJDFSTEST_VERSION := 0.2.2
FSX_VERSION := 0.3.2
S3MOCK_VERSION := 5.2.0

# The workspace without the bindings: those are compiled by maturin, which links them for Python.
RUST_PACKAGES := --workspace --exclude seqferry-py

wheel_sources = $(shell find crates/store crates/client crates/transfer crates/archive crates/vfs crates/gateway crates/nfs crates/mount crates/inventory crates/patterns crates/py crates/rows crates/share -name '*.rs' -o -name Cargo.toml) Cargo.toml Cargo.lock
testkit_sources = $(shell find crates/testkit/src crates/testkit/examples crates/testkit/Cargo.toml -type f) Cargo.toml Cargo.lock

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  \1\t/' | expand -t 22

# --- setting up -----------------------------------------------------------------------------------------------------

.PHONY: build
build: $(VENV)/.stamp-native try-page docs ## make .venv with the `seqferry` command in it (release build), its page and its documentation

$(VENV)/.stamp-python:
	@tools/require $(PYTHON) "Python 3.11 or newer (or name it: make PYTHON=/path/to/python3 ...)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "$(PYTHON) is older than Python 3.11: name a newer one with make PYTHON=/path/to/python3 ..." >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { echo "$(PYTHON) cannot make a virtual environment: install its venv module (Debian: python3-venv)" >&2; exit 1; }
	@touch $@

$(VENV)/.stamp-packages: requirements.lock $(VENV)/.stamp-python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements.lock
	@touch $@

$(VENV)/.stamp-native: $(VENV)/.stamp-packages $(wheel_sources) pyproject.toml
	@tools/require $(CARGO) "a Rust toolchain, 1.94.1 or newer (https://rustup.rs)"
	@tools/require cc "a C compiler and linker (Debian: build-essential)"
	PATH="$(abspath $(BIN)):$$PATH" MATURIN_PEP517_ARGS=--locked $(BIN)/python -m pip install --quiet \
		--disable-pip-version-check --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m compileall -q python/seqferry # as pip does with what it installs to stay
	@touch $@

# The page (web/). Without Node, or without its packages, everything else is built, unless everything has to be there.
PAGE := python/seqferry/api/page
page_sources = $(shell find web/src web/public -type f 2>/dev/null) $(wildcard web/*.ts web/*.js web/*.json web/*.html) web/.npmrc
npm = PATH="$$(tools/node $(VENV)):$$PATH" npm --prefix web

.PHONY: try-page
try-page: $(VENV)/.stamp-python
	@if ! tools/node $(VENV) >/dev/null; then test "$${SEQFERRY_REQUIRE_SERVERS:-}" != 1; \
	elif ! $(MAKE) --silent web/node_modules/.stamp; then \
		echo "npm cannot fetch the packages of the page: everything but the page is built" >&2; \
		test "$${SEQFERRY_REQUIRE_SERVERS:-}" != 1; \
	else $(MAKE) --silent $(PAGE)/index.html; fi

web/node_modules/.stamp: web/package-lock.json web/package.json web/.npmrc
	$(npm) ci --silent
	@touch $@

$(PAGE)/index.html: $(page_sources) web/node_modules/.stamp
	$(npm) run --silent build -- --logLevel warn

# Strict: a link that leads nowhere, or a page that the navigation lacks, fails the build. The folder is replaced as a
# whole, so that a server that reads it meanwhile has the files of one build.
DOCS := python/seqferry/api/docs
docs_sources = $(shell find docs tools/docs -type f 2>/dev/null) mkdocs.yml README.md web/public/icon.svg

.PHONY: docs
docs: $(DOCS)/index.html ## build the documentation as a site that can be searched; `seqferry serve` shows it under /docs

$(DOCS)/index.html: $(docs_sources) $(VENV)/.stamp-packages
	@rm -rf $(DOCS).new
	$(BIN)/mkdocs build --quiet --strict --site-dir $(DOCS).new
	@rm -rf $(DOCS)
	@mv $(DOCS).new $(DOCS)

.PHONY: tools
tools: $(TOOLS)/versitygw $(TOOLS)/s5cmd $(TOOLS)/s3proxy $(TOOLS)/s3sim $(TOOLS)/sim_load $(TOOLS)/floor $(TOOLS)/writable_gateway ## make the servers and instruments that the tests need

$(TOOLS)/versitygw:
	@tools/require $(GO) "Go 1.25 or newer (https://go.dev/dl), or put a versitygw $(VERSITYGW_VERSION) binary at $@"
	GOBIN=$(abspath $(TOOLS)) $(GO) install github.com/versity/versitygw/cmd/versitygw@$(VERSITYGW_VERSION)

$(TOOLS)/minio:
	@tools/require $(GO) "Go 1.25 or newer (https://go.dev/dl), or put a minio binary at $@"
	GOBIN=$(abspath $(TOOLS)) $(GO) install -ldflags '-s -w' github.com/minio/minio@$(MINIO_VERSION)

# Not among compat-tools, for the time that it takes: `make .tools/bin/garage`, once, adds Garage to the table.
$(TOOLS)/garage:
	$(CARGO) install garage --quiet --locked --version $(GARAGE_VERSION) --root .tools \
		--no-default-features --features bundled-libs,sqlite

# Suites that tests run on a mounted folder. Not optimized: each compiles for half a minute and runs for seconds.
.PHONY: foreign-suites
foreign-suites: $(TOOLS)/pjdfstest $(TOOLS)/fsx ## make the suites of others that tests run on a mounted folder

install_suite = CARGO_PROFILE_DEV_DEBUG=0 $(CARGO) install $(1) --quiet --locked --debug --version $(2) --root .tools

$(TOOLS)/pjdfstest: # it links with libacl (Debian: libacl1-dev)
	@tools/require $(CARGO) "a Rust toolchain, 1.94.1 or newer (https://rustup.rs)"
	$(call install_suite,pjdfstest,$(PJDFSTEST_VERSION))

$(TOOLS)/fsx:
	@tools/require $(CARGO) "a Rust toolchain, 1.94.1 or newer (https://rustup.rs)"
	$(call install_suite,fsx,$(FSX_VERSION))

# The emulated machine that mounts shares of the gateway.
.PHONY: guest-kernel
guest-kernel: ## unpack Debian's kernel for the emulated machine of the tests
	tools/guest_kernel

# Half a GB, for machines of the templates for AWS.
.PHONY: guest-debian
guest-debian: guest-kernel ## make a Debian with systemd for the emulated machine (needs root and mmdebstrap)
	tools/guest_debian

# Servers that only `make compat` talks to. Without Maven they are left out.
.PHONY: compat-tools
compat-tools: tools $(TOOLS)/minio
	@if command -v mvn >/dev/null; then $(MAKE) --silent .tools/jars/gaul-s3proxy.jar .tools/jars/s3mock.jar; fi

maven_copy = mvn --quiet --batch-mode org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy -Dartifact=$(1) \
	-DoutputDirectory=.tools/jars -Dmdep.stripVersion=true -Dmdep.stripClassifier=true

.tools/jars/gaul-s3proxy.jar:
	@mkdir -p .tools/jars
	$(call maven_copy,org.gaul:s3proxy:$(GAUL_S3PROXY_VERSION):jar:jar-with-dependencies)
	mv .tools/jars/s3proxy.jar $@

.tools/jars/s3mock.jar:
	@mkdir -p .tools/jars
	$(call maven_copy,com.adobe.testing:s3mock:$(S3MOCK_VERSION):jar:exec)

# Without Go the tests on versitygw and with s5cmd are skipped, unless everything has to be there.
.PHONY: try-go-tools
try-go-tools:
	@if [ "$${SEQFERRY_REQUIRE_SERVERS:-}" = 1 ] || command -v $(GO) >/dev/null; then \
		$(MAKE) --silent $(TOOLS)/versitygw $(TOOLS)/s5cmd; \
	elif [ ! -x $(TOOLS)/versitygw ] || [ ! -x $(TOOLS)/s5cmd ]; then \
		echo "Go is not installed: the tests on versitygw and with s5cmd are skipped (https://go.dev/dl)"; \
	fi

# Through a module of its own, so that go.sum pins what is compiled.
$(TOOLS)/s5cmd: tools/s5cmd/go.mod tools/s5cmd/go.sum
	@tools/require $(GO) "Go 1.25 or newer (https://go.dev/dl)"
	@mkdir -p $(TOOLS)
	cd tools/s5cmd && $(GO) build -mod=mod -o $(abspath $@) github.com/peak/s5cmd/v2
	@touch $@

# None of the S3 client's crates is among what they need. Named within the workspace, so that what they need has the
# features that the wheel and the tests have, and is compiled once.
$(TOOLS)/s3proxy $(TOOLS)/s3sim $(TOOLS)/sim_load $(TOOLS)/floor &: $(testkit_sources)
	@tools/require $(CARGO) "a Rust toolchain, 1.94.1 or newer (https://rustup.rs)"
	$(CARGO) build --quiet --release --locked $(RUST_PACKAGES) --bin s3proxy --bin s3sim --example sim_load --example floor
	@mkdir -p $(TOOLS)
	for tool in s3proxy s3sim examples/sim_load examples/floor; do \
		name=$$(basename $$tool); cp $(TARGET)/release/$$tool $(TOOLS)/$$name.new && mv $(TOOLS)/$$name.new $(TOOLS)/$$name; \
	done

# A share that can be written, for tests: what clients write stays on this machine, or is uploaded.
$(TOOLS)/writable_gateway: $(wheel_sources) crates/gateway/examples/writable_gateway.rs
	@tools/require $(CARGO) "a Rust toolchain, 1.94.1 or newer (https://rustup.rs)"
	$(CARGO) build --quiet --release --locked $(RUST_PACKAGES) --example writable_gateway
	@mkdir -p $(TOOLS)
	cp $(TARGET)/release/examples/writable_gateway $@.new && mv $@.new $@

# Real Nextflow from Maven Central: what the plugin is compiled against, and what its tests run.
NEXTFLOW_VERSIONS := 24.10.0 25.04.4

.PHONY: nextflow-tools
nextflow-tools: $(NEXTFLOW_VERSIONS:%=.tools/nextflow/%) ## fetch the Nextflow versions that the tests run (needs Java 17 and Maven)

.tools/nextflow/%: integrations/nextflow/versions/%/pom.xml
	@tools/require mvn "Maven and Java 17 (Debian: maven openjdk-17-jdk-headless)"
	rm -rf $@ $@.new
	mvn --quiet --batch-mode --file $< org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies \
		-DincludeScope=runtime -DoutputDirectory=$(abspath $@.new)
	mv $@.new $@
	@touch $@

nextflow_plugin_sources = $(wildcard integrations/nextflow/nf-seqferry/src/main/java/*/*/*.java) tools/build_nextflow_plugin.py Cargo.toml

.PHONY: nextflow-plugin
nextflow-plugin: dist/.stamp-nextflow-plugin ## build dist/nf-seqferry-VERSION.zip, the plugin for Nextflow (needs Java 17 and Maven)

dist/.stamp-nextflow-plugin: $(nextflow_plugin_sources) | .tools/nextflow/24.10.0
	@tools/require javac "a Java development kit, 17 or newer (Debian: openjdk-17-jdk-headless)"
	$(PYTHON) tools/build_nextflow_plugin.py .tools/nextflow/24.10.0
	@touch $@

# Without Java or Maven a release is without the plugin, unless everything has to be there.
.PHONY: try-nextflow
try-nextflow:
	@if [ "$${SEQFERRY_REQUIRE_SERVERS:-}" = 1 ] || { command -v mvn && command -v javac; } >/dev/null; then \
		$(MAKE) --silent nextflow-tools nextflow-plugin; \
	else \
		echo "Java or Maven is not installed: the plugin for Nextflow is left out (Debian: apt-get install maven openjdk-17-jdk-headless)"; \
	fi

# --- using ----------------------------------------------------------------------------------------------------------

.PHONY: demo
demo: build ## mirror a delivery between two buckets, with a kill half-way, on a page as well (KEEP=1 keeps the page)
	$(BIN)/seqferry demo $(if $(KEEP),--keep)

# --- checking -------------------------------------------------------------------------------------------------------

.PHONY: test-times
test-times: ## run the tests as `make test` does, and print where the time goes
	@$(PYTHON) tools/time_tests.py

.PHONY: test test-all test-lanes test-rust test-python test-page test-tools lane-tools compiled-tests

run_tests = $(PYTHON) tools/run_tests.py
cargo_test = $(CARGO) --config crates/tests.toml test --release --locked
# Without the examples: clippy compiles those.
cargo_tests = --cargo '$(cargo_test) --tests $(RUST_PACKAGES)' --cargo '$(cargo_test) --quiet --doc $(RUST_PACKAGES)'
pytest_tests = --lanes --pytest '$(BIN)/python -m pytest'

# Rewrites the assertions of test modules before pytest begins. Without it each of its workers rewrites them all.
rewrite_assertions = { test ! -e $(VENV)/.stamp-native || \
	env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest --collect-only -qq -n 0; } >/dev/null 2>&1

# What fails is run once more, alone, after all others (tests/README.md).
test: compiled-tests test-tools test-page ## run the tests of the page, cargo and pytest, with the lanes that a change concerns
	@$(rewrite_assertions) || true
	@$(run_tests) $(cargo_tests) $(pytest_tests)

test-all: ## run every test: every lane, and each test on every pair of a database and a server
	SEQFERRY_TEST_LANES=all SEQFERRY_TEST_PAIRS=all $(MAKE) test

test-lanes: ## run the lanes LANES="guest samba" (tests/lanes.toml), and record those that pass
	@SEQFERRY_TEST_LANES='$(or $(LANES),$(error name the lanes: make test-lanes LANES="guest samba"))' $(MAKE) test-tools
	@$(BIN)/python tools/lanes.py run $(LANES)

test-rust: compiled-tests ## run the Rust tests
	$(run_tests) $(cargo_tests)

test-python: test-tools ## run the Python and whole-system tests
	$(run_tests) $(pytest_tests)

test-page: try-page ## run the tests of the page that need no browser
	@if test -e $(PAGE)/index.html; then $(npm) test --silent -- --reporter=dot; fi

.PHONY: pictures
pictures: build $(TOOLS)/s3sim ## take the pictures of the page in docs/pictures (needs Node and Chromium)
	$(BIN)/python -m pytest -n0 --quiet tests/e2e/web/take_pictures.py

compiled-tests: $(VENV)/.stamp-packages try-go-tools
	$(cargo_test) --no-run --quiet --tests $(RUST_PACKAGES)

test-tools: build $(TOOLS)/s3proxy $(TOOLS)/s3sim $(TOOLS)/sim_load $(TOOLS)/writable_gateway try-go-tools lane-tools
	@command -v chromium >/dev/null || echo "Chromium is not installed: the tests of the page in a browser are skipped (Debian: apt-get install chromium)"
	@command -v postgres initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || echo "PostgreSQL is not installed: its tests are skipped (Debian: apt-get install postgresql)"

# A tool that cannot be made is named. The tests that need it are skipped, or fail where everything has to be there.
lane-tools:
	@for tool in $$($(PYTHON) tools/lanes.py choose --tools); do \
		$(MAKE) --silent $$tool || echo "$$tool cannot be made: tests of its lane are skipped"; \
	done

# The native module is built only if there is none: after a change below crates/, `make build` brings it up to date.
.PHONY: check check-page
check: $(VENV)/.stamp-packages ## the quick loop while working: lint, types and tests that a change concerns (BASE=<commit>)
	@test -e $(VENV)/.stamp-native || $(MAKE) build
	@PYO3_PYTHON=$(abspath $(BIN)/python) $(BIN)/python tools/changed.py $(if $(BASE),--base '$(BASE)') \
		--cargo '$(CARGO)' --cargo-test '$(cargo_test)' --page '$(MAKE) --silent check-page' $(ARGS)

check-page: page-types
	$(npm) run --silent check
	$(npm) run --silent lint
	$(npm) test --silent -- --reporter=dot

CASES ?= 20000
.PHONY: fuzz
fuzz: ## feed mutations of recorded answers to the readers of the S3 client, CASES=20000 of each kind
	PROPTEST_CASES=$(CASES) $(CARGO) test --release --locked --package seqferry-store --lib --test wire fuzz::

.PHONY: compat
compat: build $(if $(ENDPOINT),,compat-tools) ## the round trip on every S3 server there is, or ENDPOINT=https://... BUCKET=... (docs/guarantees/compatibility.md)
	PYTHONPATH=tests $(BIN)/python -m compat $(if $(ENDPOINT),--endpoint '$(ENDPOINT)') $(if $(BUCKET),--bucket '$(BUCKET)') $(ARGS)

FAULTS ?= 120
.PHONY: chaos
chaos: build $(TOOLS)/s3proxy $(TOOLS)/s3sim ## strike workers, PostgreSQL and storage by a schedule of faults: SEED=, FAULTS=120, MINUTES= (options: ARGS="--help")
	PYTHONPATH=tests $(BIN)/python -m chaos --faults $(FAULTS) $(if $(SEED),--seed $(SEED)) $(if $(MINUTES),--minutes $(MINUTES)) $(ARGS)

.PHONY: chaos-shares
chaos-shares: build $(TOOLS)/s3proxy try-go-tools ## kill gateways and mounts that clients write to while S3 fails: SCENARIO=, SEED=, MINUTES=2 for each run (options: ARGS="--help")
	PYTHONPATH=tests $(BIN)/python -m chaos.shares $(if $(SCENARIO),--scenario $(SCENARIO)) $(if $(SEED),--seed $(SEED)) $(if $(MINUTES),--minutes $(MINUTES)) $(ARGS)

.PHONY: upgrade-matrix
upgrade-matrix: build $(TOOLS)/s3proxy ## this version and that of BASE=<commit> at one database: one goes on, both run, one comes back
	@tools/require git "git, and a commit to compare with: make upgrade-matrix BASE=HEAD~1"
	BASE=$(or $(BASE),HEAD~1) $(BIN)/python -m pytest -n0 -q tests/e2e/mirror/upgrade_matrix.py $(ARGS)

.PHONY: lint lint-at-first lint-at-last lint-format lint-rust lint-python lint-arrows lint-crates lint-stubs lint-page
lint: lint-at-first lint-at-last ## run every static check

# Two at a time: pip keeps one core busy, and so do most of the checks.
lint-at-first:
	@$(MAKE) --jobs=2 --output-sync=target lint-rust $(VENV)/.stamp-packages

lint-at-last: build
	@$(MAKE) --jobs=2 --output-sync=target lint-format lint-python lint-arrows lint-crates lint-stubs lint-page

lint-format: $(VENV)/.stamp-packages
	$(CARGO) fmt --all --check
	$(BIN)/ruff format --check

lint-rust: $(VENV)/.stamp-python
	PYO3_PYTHON=$(abspath $(BIN)/python) $(CARGO) clippy --release --locked --workspace --all-targets --quiet -- -D warnings

lint-python: build
	$(BIN)/ruff check
	$(BIN)/pyright

# What may depend on what, for Python modules and for crates.
lint-arrows: build
	$(BIN)/lint-imports
	$(BIN)/python tools/check_crates.py
	$(BIN)/python tools/check_rust_modules.py
	$(BIN)/python tools/check_rust_words.py
	$(BIN)/python tools/check_words.py

# Three minutes of CPU to build helm, once; what it renders is kept for the tests, which need neither tool.
.PHONY: lint-chart
lint-chart: $(VENV)/.stamp-packages $(TOOLS)/helm $(TOOLS)/kubeconform ## check the Helm chart with helm and kubeconform (ARGS=--write keeps what it renders now)
	$(BIN)/python tools/check_chart.py $(ARGS)

$(TOOLS)/helm:
	@tools/require $(GO) "Go 1.25 or newer (https://go.dev/dl)"
	GOBIN=$(abspath $(TOOLS)) $(GO) install -ldflags '-s -w' helm.sh/helm/v3/cmd/helm@$(HELM_VERSION)

$(TOOLS)/kubeconform:
	@tools/require $(GO) "Go 1.25 or newer (https://go.dev/dl)"
	GOBIN=$(abspath $(TOOLS)) $(GO) install -ldflags '-s -w' github.com/yannh/kubeconform/cmd/kubeconform@$(KUBECONFORM_VERSION)

# An environment of its own, for the many packages of cfn-lint and moto's CloudFormation. Its lock:
# uv pip compile --group cloudformation --generate-hashes --no-header --python-version 3.11 -o tools/cloudformation/requirements.lock
CLOUDFORMATION := .tools/cloudformation

$(CLOUDFORMATION)/.stamp: tools/cloudformation/requirements.lock $(VENV)/.stamp-python
	$(PYTHON) -m venv $(CLOUDFORMATION)
	$(CLOUDFORMATION)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement $<
	@touch $@

.PHONY: cloudformation-tools lint-templates
cloudformation-tools: $(CLOUDFORMATION)/.stamp
lint-templates: cloudformation-tools ## check the templates for AWS with cfn-lint, and create them on moto
	$(CLOUDFORMATION)/bin/python tools/check_templates.py

# The schema is kept, so that the tests need no registry.
.PHONY: board-schema
board-schema: ## make the schema of Grafana's boards for the tests anew (needs Node)
	PATH="$$(tools/node $(VENV)):$$PATH" tools/board_schema/make tests/unit/data/grafana-board.schema.json

# Licences, banned crates and sources of crates. Offline once the crates are there.
lint-crates: $(VENV)/.stamp-packages
	$(CARGO) fetch --quiet --locked
	PATH="$(abspath $(BIN)):$$PATH" $(CARGO) deny --offline --locked check licenses bans sources

.PHONY: supply-chain
supply-chain: lint-crates ## check licences, sources and security advisories (variables name their databases: tools/advisories.py)
	$(BIN)/python tools/advisories.py $(ARGS)

# The typed picture of the native module against the module itself.
lint-stubs: build
	$(BIN)/python -m mypy.stubtest --allowlist tools/stubtest-allowlist.txt seqferry._native

# The types of the API are made anew of the application, so that the page cannot be checked against an old API.
lint-page: build
	@if test -e $(PAGE)/index.html; then $(MAKE) --silent page-types && $(npm) run --silent check && \
		$(npm) run --silent lint; fi

.PHONY: page-types
page-types: $(VENV)/.stamp-packages web/node_modules/.stamp ## make web/src/api/schema.d.ts: the types of the API, for the page
	@mkdir -p $(TARGET)
	$(BIN)/python tools/print_openapi.py >$(TARGET)/openapi.json
	@$(npm) run --silent types -- $(abspath $(TARGET)/openapi.json)

.PHONY: fmt
fmt: $(VENV)/.stamp-packages ## format everything
	$(CARGO) fmt --all
	$(BIN)/ruff check --fix-only --quiet
	$(BIN)/ruff format
	@if test -e web/node_modules/.stamp; then $(npm) run --silent format; fi

# --- releasing ------------------------------------------------------------------------------------------------------

.PHONY: runtime-lock
runtime-lock: $(VENV)/.stamp-packages ## write requirements-runtime.lock, the part of requirements.lock that is needed to run
	$(BIN)/python tools/release/runtime_lock.py

RELEASE := .tools/release
# TARGETS="x86_64-unknown-linux-gnu ..." builds fewer wheels.
TARGETS ?=

$(RELEASE)/.stamp: tools/release/requirements.lock $(VENV)/.stamp-python
	$(PYTHON) -m venv $(RELEASE)
	$(RELEASE)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement $<
	@touch $@

# The zip of the plugin for Nextflow goes into the wheel where it can be built.
.PHONY: dist
dist: $(VENV)/.stamp-packages $(RELEASE)/.stamp try-nextflow try-page docs ## build and try a release in dist/release: wheels, sdist, SBOMs, sums (SEQFERRY_SIGNING_KEY signs them)
	@tools/require $(CARGO) "a Rust toolchain, 1.94.1 or newer (https://rustup.rs)"
	@mkdir -p target/dist
	$(BIN)/python tools/release/runtime_lock.py --check
	$(BIN)/python tools/release/runtime_lock.py --extra demo --output target/dist/demo.lock
	$(RELEASE)/bin/python tools/release/dist.py $(TARGETS:%=--target %)

.PHONY: image
image: $(RELEASE)/.stamp ## build and start an OCI image of each wheel of `make dist`, without a container engine
	$(RELEASE)/bin/python tools/release/image.py $(ARGS)

# maturin puts the bill of materials of the crates into the wheel; that of the Python packages is of an environment with
# nothing in it but the wheel and what it needs.
.PHONY: sbom
sbom: $(VENV)/.stamp-packages $(RELEASE)/.stamp try-nextflow try-page docs ## write a wheel for this machine and its bills of materials (CycloneDX: crates, Python packages) into dist/host
	$(RELEASE)/bin/python tools/release/dist.py --host --out dist/host

# --- measuring ------------------------------------------------------------------------------------------------------

.PHONY: bench check-base
bench: check-base build tools ## run all benches, make a page of them (ARGS="--quick", BASE=<commit> compares with its build)
	@$(BIN)/python benches/run_benches.py $(if $(BASE),--base '$(BASE)') $(ARGS)

# First of all, so that a wrong name does not wait for this build.
check-base:
	@tools/require $(PYTHON) "Python 3.11 or newer (or name it: make PYTHON=/path/to/python3 ...)"
	@$(if $(BASE),$(PYTHON) benches/builds.py '$(BASE)')

.PHONY: bench-copy
bench-copy: build tools ## copy side by side: Seqferry, aws, s5cmd, rclone, boto3 (options: ARGS="--help")
	$(BIN)/python benches/bench_copy.py $(ARGS)

.PHONY: bench-start
bench-start: build $(TOOLS)/versitygw ## seconds and CPU seconds of cp of 16 KiB, status, ls, cat and the start of serve (options: ARGS="--runs 30")
	$(BIN)/python benches/measure_start.py $(ARGS)

.PHONY: bench-transfer
bench-transfer: build tools ## move files up and down side by side: Seqferry, s5cmd, rclone, crt, aws (options: ARGS="--help")
	$(BIN)/python benches/bench_transfer.py $(ARGS)

.PHONY: bench-pipelines
bench-pipelines: build tools nextflow-tools nextflow-plugin ## stage 2,000 files for Nextflow: plugin, mount, seqferry aws, aws, s5cmd (options: ARGS="--help")
	$(BIN)/python benches/bench_pipelines.py $(ARGS)

.PHONY: bench-tar
bench-tar: build tools ## pack 1,000 objects into one tar and unpack it, side by side: Seqferry, aws and s5cmd with tar (options: ARGS="--help")
	$(BIN)/python benches/bench_tar.py $(ARGS)

.PHONY: bench-mount
bench-mount: build tools ## read a mounted bucket side by side: Seqferry, mount-s3, rclone, s3fs, geesefs (options: ARGS="--help")
	$(BIN)/python benches/bench_mount.py $(ARGS)

.PHONY: bench-paper
bench-paper: build $(TOOLS)/s3sim ## replay the S3Mirror paper's table on the simulator, with its peers (options: ARGS="--help")
	$(BIN)/python benches/bench_paper.py $(ARGS)

.PHONY: bench-million
bench-million: build $(TOOLS)/s3sim ## a million small objects through the whole durable stack, on the simulator (options: ARGS="--help")
	$(BIN)/python benches/bench_million.py $(ARGS)

.PHONY: bench-idle
bench-idle: build ## what 20 workers without work cost PostgreSQL: statements, transactions, connections (options: ARGS="--help")
	$(BIN)/python benches/idle_workers.py $(ARGS)

.PHONY: bench-fleet
bench-fleet: build $(TOOLS)/s3sim ## 300 small transfers at once on one worker; one transfer on 1, 2 and 4, on the simulator (options: ARGS="--help")
	$(BIN)/python benches/bench_fleet.py $(ARGS)

.PHONY: bench-api
bench-api: build ## the HTTP API on a million objects while a worker writes, on PostgreSQL and SQLite (options: ARGS="--help")
	$(BIN)/python benches/measure_api.py $(ARGS)
	$(BIN)/python benches/measure_api.py --database sqlite $(ARGS)

.PHONY: bench-page
bench-page: build $(TOOLS)/s3sim ## the page on a transfer of a million objects, in Chromium, on the simulator (options: ARGS="--help")
	$(BIN)/python benches/measure_page.py $(ARGS)

.PHONY: bench-simulator
bench-simulator: build $(TOOLS)/s3sim $(TOOLS)/sim_load ## how many requests one core of the S3 simulator serves (options: ARGS="--help")
	$(BIN)/python benches/bench_simulator.py $(ARGS)

.PHONY: bench-requests
bench-requests: $(TOOLS)/s3sim ## CPU and memory of one copy request, layer by layer, on the simulator (options: ARGS="--in-flight 3000 --seconds 0.8")
	$(CARGO) build --quiet --release --locked $(RUST_PACKAGES) --example request_costs
	$(TARGET)/release/examples/request_costs $(TOOLS)/s3sim $(ARGS)

.PHONY: bench-gateway
bench-gateway: build $(TOOLS)/versitygw $(TOOLS)/s3proxy ## write to and read from a share side by side: Seqferry, rclone serve nfs (options: ARGS="--help")
	$(BIN)/python benches/bench_gateway.py $(ARGS)

.PHONY: bench-gateway-soak
bench-gateway-soak: build $(TOOLS)/versitygw $(TOOLS)/s3proxy ## a sequencer that writes to a share while its storage throttles and goes away (options: ARGS="--files 20")
	$(BIN)/python benches/measure_gateway_soak.py $(ARGS)

.PHONY: bench-gateway-restart
bench-gateway-restart: build $(TOOLS)/versitygw ## a gateway with 100,000 files that wait, killed and started again (options: ARGS="--files 1000")
	$(BIN)/python benches/measure_gateway_restart.py $(ARGS)

.PHONY: bench-gateway-large
bench-gateway-large: build $(TOOLS)/s3sim ## list a share of ten folders of a million keys, and start it again (options: ARGS="--names 10000 --written")
	$(BIN)/python benches/measure_gateway_large.py $(ARGS)

.PHONY: bench-gateway-long
bench-gateway-long: build $(TOOLS)/s3sim ## a file of 20 GB that grows at 200 MB/s, until it is in the bucket (options: ARGS="--size 2000 --kill")
	$(BIN)/python benches/measure_gateway_long.py $(ARGS)

.PHONY: bench-journal
bench-journal: ## acknowledged creates of the gateway's journal each second, and their syncs (options: ARGS="--seconds 5")
	$(CARGO) build --quiet --release --locked $(RUST_PACKAGES) --example journal_load
	@mkdir -p $(TARGET)/journal
	$(TARGET)/release/examples/journal_load $(TARGET)/journal $(ARGS)

.PHONY: governor-plots
governor-plots: ## draw the plots of docs/develop/governor.md again
	$(CARGO) build --release --locked $(RUST_PACKAGES) --example governor_plots
	$(TARGET)/release/examples/governor_plots docs/develop/governor

# --- tidying --------------------------------------------------------------------------------------------------------

.PHONY: clean
clean: ## remove everything that was made
	rm -rf $(VENV) .tools target dist LICENSE-THIRD-PARTY benches/results web/node_modules $(PAGE) $(DOCS) .pytest_cache .ruff_cache .mypy_cache .hypothesis
	find python crates -name '*.so' -delete
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
