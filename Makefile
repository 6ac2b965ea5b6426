# make demo | make test | make check | make docs | make dist; PYTHON=python3.13 picks another interpreter.
PYTHON ?= python3
VERSION := $(shell $(PYTHON) -c "import sys; print('%d.%d' % sys.version_info[:2])")
VENV := .venv-$(VERSION)
BIN := $(VENV)/bin
LOWEST := .venv-lowest
MIDDLE := 1.6 1.7

.PHONY: demo test test-lowest test-middle check docs dist clean

demo: $(VENV)/.demo
	$(BIN)/python -m shapiq_oddshap --output oddshap-waterfall.png

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 --dist worksteal

# The lower bounds of pyproject.toml, in an environment of their own.
test-lowest: $(LOWEST)/.installed
	$(LOWEST)/bin/python -m pytest -q -n 2 tests/test_theorems.py tests/test_sampling.py \
		tests/test_regression.py tests/test_trees.py tests/test_oddshap.py tests/gp tests/test_threads.py

$(LOWEST)/.installed: pyproject.toml
	$(PYTHON) -m venv $(LOWEST)
	sed -n '/^dependencies/,/^]/s/^    "\([a-z-]*\)>=\([0-9.]*\)[^"]*",.*$$/\1==\2/p' pyproject.toml > $(LOWEST)/bounds.txt
	$(LOWEST)/bin/python -m pip install --quiet --no-compile -c $(LOWEST)/bounds.txt -e . hypothesis pytest pytest-xdist
	touch $@

# shapiq between the two ends that `test` covers, by a selection; Python >= 3.12.
test-middle: $(MIDDLE:%=test-shapiq-%)

test-shapiq-%: .venv-shapiq-%/.installed
	.venv-shapiq-$*/bin/python -m pytest -q -n 2 tests/test_registration.py tests/test_explaining.py \
		tests/test_oddshap.py tests/test_sampling.py tests/test_theorems.py tests/test_fouriershap.py \
		tests/test_ffd.py tests/test_ablations.py tests/contract/test_orders.py tests/contract/test_fitting_in.py \
		-k "not silence and not memory and not ctrl_c"

.PRECIOUS: .venv-shapiq-%/.installed
.venv-shapiq-%/.installed: pyproject.toml
	$(PYTHON) -m venv .venv-shapiq-$*
	.venv-shapiq-$*/bin/python -m pip install --quiet --no-compile "shapiq==$*.*" -e . hypothesis pytest pytest-xdist scikit-learn xgboost
	touch $@

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The site, in build/docs; examples that did not change are not run again.
docs: $(VENV)/.docs
	rm -rf docs/generated
	OMP_NUM_THREADS=1 $(BIN)/python -m sphinx -W --keep-going --color -d build/doctrees docs build/docs

# Wheel and sdist, each tried in an environment that holds nothing else, away from the sources.
dist: $(VENV)/.dev
	rm -rf dist build/lib
	$(BIN)/python -m build --quiet --outdir dist .
	$(PYTHON) -m venv --clear build/smoke
	build/smoke/bin/python -m pip install --quiet --no-compile dist/*.whl
	cd build/smoke && bin/python -I ../../tests/smoke.py
	build/smoke/bin/python -m pip install --quiet --no-compile --force-reinstall --no-deps dist/*.tar.gz
	cd build/smoke && bin/python -I ../../tests/smoke.py

# Stamps tell make what an environment holds; they age with the project's dependencies.
$(VENV)/.demo: pyproject.toml | $(VENV)
	$(BIN)/python -m pip install --quiet --no-compile -e .
	touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)
	$(BIN)/python -m pip install --quiet --no-compile -e ".[dev]"
	touch $@ $(VENV)/.demo

$(VENV)/.docs: pyproject.toml | $(VENV)
	$(BIN)/python -m pip install --quiet --no-compile -e ".[docs]"
	touch $@ $(VENV)/.demo

$(VENV):
	$(PYTHON) -m venv $@

clean:
	rm -rf .venv-* build dist *.egg-info docs/auto_examples docs/generated docs/sg_execution_times.rst
