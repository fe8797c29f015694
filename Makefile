# Everything that is done with this repository. `make` lists it. Needs python3 (3.11 or newer) with venv, nothing else:
# the first target that needs it makes .venv from requirements.lock, once; after that no network is used.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
COMPILED := $(VENV)/.compiled
# Extra arguments of the tool that a target runs: make demo ARGS=--stay
ARGS ?=
MINUTES ?= 5

# Your pip settings (index, proxy, certificates) are used; only what cannot work inside a venv is switched off.
export PIP_USER := 0
export PIP_REQUIRE_VIRTUALENV := 0
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# Compiled modules are kept: tests start many processes, and each would compile all of it again (a third of their time).
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help install test lint wheel pythons attacks bench bench-hived bench-claims bench-vpods bench-plan bench-lab bench-e2e hived-figure soak demo image demo-real e2b e2e audit lock clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z][a-z0-9-]*:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

install: $(INSTALLED) ## make .venv with everything in it (the other targets do that by themselves)

# Two thirds of their time tests wait for sockets and processes: three workers for each core, where there are few cores.
WORKERS = $(shell $(BIN)/python -c 'import os; n = os.cpu_count() or 1; print(max(n, min(3 * n, 8)))')

# pytest compiles each module of tests in its own way, for 15 seconds. Without this, each worker does so in the first run.
TESTS_BY_HALVES = 'tests/unit/[a-k]*' 'tests/unit/[l-z]* tests/integration tests/conformance tests/faults tests/frozen'
$(COMPILED): $(INSTALLED)
	@echo 'Compiling the tests (once) ...'
	@for half in $(TESTS_BY_HALVES); do $(BIN)/python -m pytest --collect-only -qq $$half >/dev/null 2>&1 & done; wait
	@touch $@

test: $(COMPILED) ## run all tests but the slow ones, on all cores
	@$(BIN)/python -m pytest -m "not slow" --few-examples --numprocesses $(WORKERS) --dist worksteal $(ARGS)

lint: $(INSTALLED) ## ruff, ruff format --check, mypy --strict, import-linter
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

attacks: $(INSTALLED) ## attack a server that runs; prints what it did, its memory, and how long a valid /filter took meanwhile
	@$(BIN)/python -m tests.attacks $(ARGS)

bench: $(INSTALLED) ## measure; prints a table of ratios
	@$(BIN)/python -m tests.bench $(ARGS)

bench-hived: $(INSTALLED) ## measure HiveD on the original's workload, beside what the original took
	@$(BIN)/python -m tests.bench.hived $(ARGS)

bench-claims: $(INSTALLED) ## measure claims: the engine alone, beside the source's policy and a naive client, and on a real control plane if that is built
	@$(BIN)/python -m tests.bench.claims $(ARGS)

bench-vpods: $(INSTALLED) ## measure decisions about vpods on the original's workload, beside what the original took
	@$(BIN)/python -m tests.bench.vpods $(ARGS)

bench-plan: $(INSTALLED) ## measure plans of 2,000 pods on 5,000 nodes, and the engine of dependencies
	@$(BIN)/python -m tests.bench.plan $(ARGS)

bench-lab: $(INSTALLED) ## measure simulations of 100,000 pods on 1,000 nodes
	@$(BIN)/python -m tests.bench.lab $(ARGS)

bench-e2e: $(INSTALLED) ## measure what Waggle costs a real kube-scheduler (needs Go, as e2e does)
	@$(BIN)/python -m tests.e2e.build >/dev/null
	@$(BIN)/python -m tests.bench.e2e $(ARGS)

hived-figure: $(INSTALLED) ## simulate who waits longer for sharing; draws docs/hived-sharing.svg
	@$(BIN)/waggle simulate --study sharing --svg docs/hived-sharing.svg $(ARGS)

soak: $(INSTALLED) ## every fault on every call, simulated and on sockets, for MINUTES (default 5); prints figures
	@$(BIN)/python -m tests.soak --minutes $(MINUTES) $(ARGS)

demo: $(INSTALLED) ## a whole cluster on this machine: watch pods and gangs being placed (ARGS=--stay keeps it up)
	@$(BIN)/waggle demo $(ARGS)

# What is tested elsewhere against stand-ins, and needs only a binary to be tested against the real thing.
E2E_TOO := tests/integration/embedded/test_real_kube_scheduler.py tests/integration/embedded/test_kubectl.py \
	tests/unit/operate/test_lint.py tests/unit/operate/test_scheduler_config.py \
	tests/unit/manifests/test_overlays.py tests/unit/manifests/test_chart.py

# These tests wait much of their time: three workers, each with a control plane of its own; a module stays on one of them.
# Modules begin in the order of tests/e2e/conftest.py: otherwise those with few tests come last, however long they take.
e2e: $(INSTALLED) ## test against a real control plane, built first if need be (needs Go; the first time a quarter of an hour)
	@$(BIN)/python -m tests.e2e.build
	@$(BIN)/python -m pytest tests/e2e $(E2E_TOO) --numprocesses 3 --dist loadscope --no-loadscope-reorder $(ARGS)

image: $(INSTALLED) ## build the image without Docker, and test it on a real control plane (needs buildah, mmdebstrap, root)
	@$(BIN)/python -m tests.e2e.build >/dev/null
	@WAGGLE_E2E_IMAGE=yes $(BIN)/python -m pytest tests/e2e/test_image.py $(ARGS)

# E2B's own package and what it needs stay out of .venv: nothing else uses them.
E2B_LOCK := tests/integration/e2b/requirements.lock
e2b: $(INSTALLED) .venv-e2b/.installed ## try E2B's own package against Waggle (installs it in .venv-e2b, once)
	@$(BIN)/python -m pytest tests/integration/e2b $(ARGS)

.venv-e2b/.installed: $(E2B_LOCK)
	@$(PYTHON) -m venv --clear .venv-e2b
	@.venv-e2b/bin/pip install --quiet --require-hashes --requirement $(E2B_LOCK)
	@touch $@

demo-real: $(INSTALLED) ## the demo on a real control plane, built first if need be (ARGS=--stay keeps it up)
	@$(BIN)/python -m tests.e2e.build >/dev/null
	@$(BIN)/python -m tests.e2e.demo $(ARGS)

pythons: $(INSTALLED) ## run the engine's tests on every other Python from 3.11 on that this machine has
	@$(BIN)/python -m tests.pythons $(ARGS)

wheel: $(INSTALLED) ## build sdist and wheel, install the wheel in an empty environment, run the demo there (needs a package index)
	@$(BIN)/python -m tests.wheel $(ARGS)

audit: $(INSTALLED) ## ask the package index for known vulnerabilities of what is locked
	@$(BIN)/python -m tests.audit

lock: ## resolve pyproject.toml again into requirements.lock (ARGS=--upgrade takes newer versions)
	@tmp=$$(mktemp -d) && trap 'rm -rf "$$tmp"' EXIT && \
	echo "Resolving into requirements.lock ..." && \
	$(PYTHON) -m venv "$$tmp" && "$$tmp/bin/pip" install --quiet uv && \
	index=$$("$$tmp/bin/pip" config get global.index-url 2>/dev/null || true) && \
	UV_DEFAULT_INDEX="$${PIP_INDEX_URL:-$${index:-https://pypi.org/simple}}" "$$tmp/bin/uv" pip compile --quiet \
		--universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --all-extras \
		--output-file requirements.lock $(ARGS) pyproject.toml

clean: ## remove .venv and everything else that was made
	@rm -rf $(VENV) .venv-e2b build dist *.egg-info .mypy_cache .ruff_cache .import_linter_cache .hypothesis .pytest_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamp is written last: an installation that was interrupted is done again.
$(INSTALLED): requirements.lock pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "Waggle needs Python 3.11 or newer, and there is no $(PYTHON)." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; v = sys.version_info; v >= (3, 11) or sys.exit(f"Waggle needs Python 3.11 or newer; $(PYTHON) is {v[0]}.{v[1]}. Name another: make PYTHON=python3.12 $(MAKECMDGOALS)")'
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "$(PYTHON) has no venv module (on Debian: apt-get install python3-venv)." >&2; exit 1; }
	@echo "Installing into $(VENV) from requirements.lock (once, takes a minute) ..."
	@$(BIN)/pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	@$(BIN)/pip install --quiet --require-hashes --requirement requirements.lock
	@$(BIN)/pip install --quiet --no-deps --no-build-isolation --no-index --editable .
	@touch $@
