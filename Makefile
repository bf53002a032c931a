# Two commands matter: `make demo` and `make test`. Both install what they need into .venv.
PYTHON ?= python3
BIN := .venv/bin
PORT ?= 8501

.PHONY: help install demo test soak bench lint clean

help:
	@echo "make demo    install, make the demo study, open the app on http://localhost:$(PORT)"
	@echo "make test    install, run all tests (browser tests too, where there is a browser)"
	@echo "make soak    the long tests"
	@echo "make bench   the benchmarks (CPU)"
	@echo "make lint    ruff"

install: .venv/.installed

.venv/.installed: requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Blindspot needs Python 3.11 or newer; $(PYTHON) is older. Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "Installing the requirements into .venv (about 3 GB, some minutes) ..."
	$(BIN)/python -m pip install --disable-pip-version-check --progress-bar off -q -r requirements.txt
	$(BIN)/python -m pip install --disable-pip-version-check -q --no-deps -e .
	@touch $@

.venv/.installed-dev: .venv/.installed requirements-dev.txt
	$(BIN)/python -m pip install --disable-pip-version-check --progress-bar off -q -r requirements-dev.txt
	@touch $@

demo: install
	@$(BIN)/blindspot demo demo --port $(PORT)

test: .venv/.installed-dev
	$(BIN)/python -m pytest

soak: .venv/.installed-dev
	$(BIN)/python -m pytest -m slow

bench: .venv/.installed-dev
	$(BIN)/python -m benchmarks

lint: .venv/.installed-dev
	$(BIN)/ruff check .

clean:
	rm -rf .venv demo build *.egg-info
