# make demo | make test | make check; PYTHON=python3.13 picks another interpreter.
PYTHON ?= python3
VERSION := $(shell $(PYTHON) -c "import sys; print('%d.%d' % sys.version_info[:2])")
VENV := .venv-$(VERSION)
BIN := $(VENV)/bin
LOWEST := .venv-lowest

.PHONY: demo test test-lowest check clean

demo: $(VENV)/.demo
	$(BIN)/python -m shapiq_oddshap --output oddshap-waterfall.png

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2

# The lower bounds of pyproject.toml, in an environment of their own.
test-lowest: $(LOWEST)/.installed
	$(LOWEST)/bin/python -m pytest -q -n 2 tests/test_theorems.py tests/test_sampling.py \
		tests/test_regression.py tests/test_trees.py tests/test_oddshap.py tests/test_gp.py

$(LOWEST)/.installed: pyproject.toml
	$(PYTHON) -m venv $(LOWEST)
	sed -n '/^dependencies/,/^]/s/^    "\([a-z-]*\)>=\([0-9.]*\)[^"]*",.*$$/\1==\2/p' pyproject.toml > $(LOWEST)/bounds.txt
	$(LOWEST)/bin/python -m pip install --quiet --no-compile -c $(LOWEST)/bounds.txt -e . hypothesis pytest pytest-xdist
	touch $@

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Stamps tell make what an environment holds; they age with the project's dependencies.
$(VENV)/.demo: pyproject.toml | $(VENV)
	$(BIN)/python -m pip install --quiet --no-compile -e .
	touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)
	$(BIN)/python -m pip install --quiet --no-compile -e ".[dev]"
	touch $@ $(VENV)/.demo

$(VENV):
	$(PYTHON) -m venv $@

clean:
	rm -rf .venv-* build dist *.egg-info
