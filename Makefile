# Two commands on a fresh machine: `make demo` and `make test`. Both make .venv with the versions in constraints.txt.
PYTHON ?= python3
BIN := .venv/bin
THREADS ?= 1

.PHONY: demo test lint types unit bench clean

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --upgrade pip -c constraints.txt
# torch first and by its exact version: a range would bring gigabytes of CUDA packages
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt --editable ".[dev]"
	touch $@

demo: .venv/installed  ## the main job in a few minutes: four mechanisms side by side
	$(BIN)/ponderosa compare parity --config src/ponderosa/recipes/demo.yaml --folder runs/demo

test: lint types unit  ## what CI runs

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: .venv/installed
	$(BIN)/mypy

unit: .venv/installed
	OMP_NUM_THREADS=$(THREADS) $(BIN)/pytest -n 2

bench: .venv/installed  ## all benchmarks, into benchmarks/
	$(BIN)/pip install --quiet --no-deps -r benchmarks/peers.txt
	$(BIN)/ponderosa bench train --json benchmarks/train.json
	$(BIN)/ponderosa bench engine --json benchmarks/engine.json --plot benchmarks/engine.png
	$(BIN)/ponderosa bench stream --json benchmarks/stream.json
	$(BIN)/ponderosa bench transformer --json benchmarks/transformer.json
	$(BIN)/ponderosa bench modules --json benchmarks/modules.json

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
