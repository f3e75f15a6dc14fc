# Everything a person runs. `make help` is the only list.
# Pick another interpreter with `make demo PYTHON=python3.12`; the environment lives in .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq
SOURCES := app agents tools memory prompts tests bench
COMPILE := $(BIN)/pip-compile --quiet --allow-unsafe --strip-extras --build-deps-for editable \
  --no-emit-options --no-emit-index-url --no-emit-trusted-host --no-emit-find-links
DEMO ?= examples/softmax

.DEFAULT_GOAL := help
.PHONY: help demo test check lint types contracts smoke-model bench soak table setup setup-dev setup-cuda locks doctor clean

help: ## list every command
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.runtime ## set up, then make one example faster and show how (about 3 minutes on 2 cores)
	@$(BIN)/warpsmith optimize $(DEMO) --wall-time 75s

test: $(VENV)/.dev ## set up with the development tools and run the tests
	@$(BIN)/python -m pytest -m "not measures" -n 2 --dist loadfile
	@$(BIN)/python -m pytest -m measures

check: lint types contracts test ## what must be green before a change lands

lint: $(VENV)/.dev ## ruff: rules and format
	@$(BIN)/ruff check $(SOURCES)
	@$(BIN)/ruff format --check $(SOURCES)

types: $(VENV)/.dev ## mypy, strict
	@$(BIN)/mypy

contracts: $(VENV)/.dev ## import-linter: who may import whom
	@$(BIN)/lint-imports

smoke-model: $(VENV)/.dev ## drive a real model server: make smoke-model URL=http://127.0.0.1:8080/v1 [WIRES=chat,responses,messages]
	@test -n "$(URL)" || { echo "Name the server: make smoke-model URL=http://127.0.0.1:8080/v1" >&2; exit 1; }
	@WARPSMITH_REAL_MODEL="$(URL)" WARPSMITH_REAL_WIRES="$(or $(WIRES),chat)" $(BIN)/python -m pytest -m real_model -s tests/test_real_model.py

bench: $(VENV)/.dev ## measure start-up, overhead per iteration, state size and memory against their budgets
	@$(BIN)/python -m bench.run

soak: $(VENV)/.dev ## optimise without a pause for SOAK (60m; 2m for a try) and fail when memory, descriptors or threads are not flat
	@$(BIN)/python -m bench.soak --for $(or $(SOAK),60m)

table: $(VENV)/.runtime ## optimise every example and write the README's table of results (minutes)
	@$(BIN)/python -m bench.table

doctor: $(VENV)/.runtime ## what this machine offers and what to do about what it lacks
	@$(BIN)/warpsmith doctor

setup: $(VENV)/.runtime ## make .venv with what a run needs

setup-dev: $(VENV)/.dev ## make .venv with what development needs, torch included

setup-cuda: $(VENV)/.runtime ## build PyCUDA against this machine's CUDA toolkit, to judge on its GPU (docs/gpu.md)
	@$(BIN)/python -P -m tools.cuda_setup

locks: $(VENV)/.dev ## resolve the two lock files again
	@$(PIP) install pip-tools==7.6.2
	@CUSTOM_COMPILE_COMMAND="make locks" $(COMPILE) --generate-hashes -o requirements.lock pyproject.toml
	@CUSTOM_COMPILE_COMMAND="make locks" $(COMPILE) --extra test --extra dev -c requirements.lock -o requirements-dev.lock pyproject.toml
	@sed -i -E 's/^(torch==[0-9.]+)\+cpu$$/\1/' requirements-dev.lock

clean: ## remove the environment and all caches, keep runs/
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamps make a second call fast: nothing is installed again until a lock file or pyproject.toml changes.

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "warpsmith needs Python 3.11 or newer as '$(PYTHON)'. Install it, or name another: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@command -v g++ >/dev/null || { \
	  echo "warpsmith needs g++ 11 or newer. Install it, for instance: apt-get install g++" >&2; exit 1; }
	@echo "making $(VENV)"
	@$(PYTHON) -m venv --clear $(VENV) || { \
	  echo "'$(PYTHON) -m venv' failed. Debian and Ubuntu keep it in its own package: apt-get install python3-venv" >&2; exit 1; }
	@touch $@

$(VENV)/.runtime: $(VENV)/.made requirements.lock pyproject.toml
	@echo "installing what a run needs (about half a minute)"
	@$(PIP) install --no-compile -r requirements.lock
	@$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime requirements-dev.lock
	@echo "installing the development tools (torch is the large one)"
	@$(PIP) install --no-compile -r requirements-dev.lock
	@touch $@
