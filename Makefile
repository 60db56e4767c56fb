# Every target sets up .venv by itself; nothing needs to be installed by hand.
# Another interpreter: make PYTHON=python3.12 setup
# More for pytest:     make test ARGS='-k snapping -x'

PYTHON ?= python3
WORKERS ?= logical
ARGS ?=

VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check --quiet install
PYTEST := OMP_NUM_THREADS=1 $(PY) -m pytest -n $(WORKERS) --maxprocesses 8 --dist worksteal

# Idle OpenMP threads sleep instead of spinning, which matters on a busy machine.
export OMP_WAIT_POLICY := passive

# $(call timed,NAME,COMMAND): runs it and prints its wall time.
timed = start=$$(date +%s); $(2); code=$$?; \
  echo "make $(1): $$(( $$(date +%s) - start )) s"; exit $$code

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup demo test test-all storm lint types bench docs clean

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' Makefile

setup: $(VENV)/.ready  ## Create .venv and install everything (once)

demo: $(VENV)/.ready  ## Digits by half a byte, three ways: a table, and report/index.html
	@$(call timed,demo,OMP_NUM_THREADS=1 $(PY) -m gradsnap demo $(ARGS))

test: $(VENV)/.ready  ## Run the fast tests, on all cores
	@$(call timed,test,$(PYTEST) $(ARGS))

test-all: $(VENV)/.ready  ## Run the slow tests too
	@$(PYTEST) -m 'not gpu' $(ARGS)

storm: $(VENV)/.ready  ## Bad inputs, kills and races; STORM_MINUTES, STORM_SEED, KIND, TRIES
	@OMP_NUM_THREADS=1 $(PY) -m storm $(if $(STORM_MINUTES),--minutes $(STORM_MINUTES)) \
	  $(if $(STORM_SEED),--seed $(STORM_SEED)) $(addprefix --kind ,$(KIND)) \
	  $(if $(TRIES),--tries $(TRIES)) $(ARGS)

lint: $(VENV)/.ready  ## Check style, format, types and workflows
	@$(PY) -m ruff check
	@$(PY) -m ruff format --check
	@$(PY) -m mypy
	@$(VENV)/bin/zizmor --offline --quiet --persona pedantic .github

types: $(VENV)/.ready  ## Check types only
	@$(PY) -m mypy

bench: $(VENV)/.ready  ## Run the benchmarks on one thread and write their tables
	@OMP_NUM_THREADS=1 $(PY) -m benchmarks $(ARGS)

docs: $(VENV)/.docs  ## Build the documentation into site/
	@$(PY) -m mkdocs build --strict --quiet
	@echo "The documentation is in site/index.html"

clean:  ## Remove caches and built files (.venv, data and report stay)
	@rm -rf site dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find . \( -path ./$(VENV) -o -path ./.git \) -prune -o \
	  -type d -name __pycache__ -exec rm -rf {} +

# An interrupted set-up leaves no stamp, so the next command simply continues it.
$(VENV)/.ready: pyproject.toml constraints.txt
	@python='$(PYTHON)'; if [ -x $(PY) ]; then python=$(PY); fi; \
	"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "gradsnap needs Python 3.11 or newer, and $$python is" \
	    "$$("$$python" -V 2>&1 || true)."; \
	  echo "Name another interpreter: make PYTHON=python3.12 setup" \
	    "(remove $(VENV) first if it exists)."; exit 1; }
	@echo "Setting up $(VENV) (once, about a minute)…"
	@$(PY) -m pip --version >/dev/null 2>&1 || "$(PYTHON)" -m venv $(VENV)
	@torch=$$(grep '^torch==' constraints.txt) && echo "  $$torch" && $(PIP) "$$torch"
	@echo "  build tools" && $(PIP) -c constraints.txt hatchling editables
	@echo "  gradsnap with its dev extra" && \
	  $(PIP) -c constraints.txt --no-build-isolation -e '.[dev]'
	@touch $@
	@echo "Ready."

$(VENV)/.docs: $(VENV)/.ready
	@echo "Installing the docs extra (once)…"
	@$(PIP) -c constraints.txt --no-build-isolation -e '.[docs]'
	@touch $@
