# Everything a person or CI runs. Needs Python ≥ 3.11 and make, nothing else.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.DEFAULT_GOAL := help
.PHONY: help setup up test check lint types contracts format bench pins clean

help: ## list what there is
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

setup: $(READY) ## the environment, in .venv

$(READY): requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Windlass needs Python 3.11 or newer; $(PYTHON) is older. Try: make $(MAKECMDGOALS) PYTHON=python3.12"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $(READY)

up: setup ## database, worker and demo application, until Ctrl-C
	$(BIN)/windlass up

test: setup ## everything that proves it works
	$(BIN)/python -m pytest -n auto --dist worksteal

check: setup lint types contracts ## lint, types, contracts

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/pyright

contracts: setup
	$(BIN)/lint-imports

format: setup ## put the code in shape
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

bench: setup ## measure this machine: the ceiling, and Windlass on it
	$(BIN)/windlass bench

pins: setup ## compile requirements/dev.txt anew
	$(BIN)/uv pip compile pyproject.toml --extra embedded --group dev --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --quiet -o requirements/dev.txt

clean: ## remove what was built
	rm -rf .venv .pytest_cache .ruff_cache .hypothesis dist build
