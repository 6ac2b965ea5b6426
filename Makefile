# make demo | make test | make check; PYTHON=python3.13 picks another interpreter.
PYTHON ?= python3
VERSION := $(shell $(PYTHON) -c "import sys; print('%d.%d' % sys.version_info[:2])")
VENV := .venv-$(VERSION)
BIN := $(VENV)/bin

.PHONY: demo test test-lowest check clean

demo: $(VENV)/.demo
	$(BIN)/python -m shapiq_oddshap --output oddshap-waterfall.png

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 --dist loadgroup

# The lower bounds of pyproject.toml, in an environment of their own.
test-lowest: VENV := .venv-lowest
test-lowest: .venv-lowest/.dev
	$(BIN)/python -m pytest -n 2 --dist loadgroup tests/contract tests/test_theorems.py

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Stamps tell make what an environment holds; they age with the project's dependencies.
$(VENV)/.demo: pyproject.toml | $(VENV)
	$(BIN)/python -m pip install --quiet -e .
	touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)
	$(BIN)/python -m pip install --quiet -e ".[dev]"
	touch $@ $(VENV)/.demo

$(VENV):
	$(PYTHON) -m venv $@

clean:
	rm -rf .venv-* build dist *.egg-info
