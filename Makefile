# Two commands matter: `make demo` and `make test`. Both install what they need into .venv.
PYTHON ?= python3
BIN := .venv/bin
PORT ?= 8501
ESLINT ?= 10.15.0
WORKERS ?= 2

# Tests start some hundred Python processes. Where this variable forbids compiled files, each compiles the sources again.
test soak faults coverage: export PYTHONDONTWRITEBYTECODE =

.PHONY: help install demo test quick check check-js soak faults bench coverage docs format clean

help:
	@echo "make demo      install, make the demo study, open the app on http://localhost:$(PORT)"
	@echo "make test      install, run all tests in $(WORKERS) processes, and browser tests in one beside them"
	@echo "make quick     the unit tests that need no browser, model or JVM"
	@echo "make check     format, lint and types (under a minute)"
	@echo "make soak      the long tests, those of numbers as on other machines, and the planted faults"
	@echo "make faults    plants faults in a copy, one by one: the tests must see each"
	@echo "make bench     the benchmarks (CPU)"
	@echo "make coverage  all tests, with the share of lines and branches they reach"
	@echo "make docs      every command and method, as the program describes them, into build/docs"
	@echo "make format    ruff format, and the lint faults that ruff can mend"

install: .venv/.installed

.venv/.installed: requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Blindspot needs Python 3.11 or newer; $(PYTHON) is older. Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "Installing the requirements into .venv (about 3 GB, some minutes) ..."
	$(BIN)/python -m pip install --disable-pip-version-check --progress-bar off -q -r requirements.txt
	$(BIN)/python -m pip install --disable-pip-version-check -q --no-deps -e .
	@touch $@

.venv/.installed-dev: .venv/.installed requirements-dev.txt requirements-formats.txt
	$(BIN)/python -m pip install --disable-pip-version-check --progress-bar off -q -r requirements-dev.txt
	$(BIN)/python -m pip install --disable-pip-version-check --progress-bar off -q --no-deps -r requirements-formats.txt || \
	  echo "Without them, the tests of trainers' files by their own libraries are skipped."
	@touch $@

demo: install
	@$(BIN)/blindspot demo demo --port $(PORT) $(DEMO_OPTIONS)

test: .venv/.installed-dev
	$(BIN)/python -m tests.lanes $(WORKERS)

quick: .venv/.installed-dev
	$(BIN)/python -m pytest -m quick -q

check: .venv/.installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/python -m mypy
	@$(MAKE) --no-print-directory check-js

check-js:
	@if ! command -v npx >/dev/null; then echo "check-js: skipped, node is not installed"; \
	elif ! npx --yes eslint@$(ESLINT) --version >/dev/null 2>&1; then echo "check-js: skipped, eslint cannot be fetched"; \
	else npx --yes eslint@$(ESLINT) app && echo "check-js: ok"; fi

soak: .venv/.installed-dev
	$(BIN)/python -m pytest -m slow
	$(BIN)/python -m pytest -m "hypothesis and not slow" --hypothesis-profile soak
	$(BIN)/python -m tests.other_machines
	@$(MAKE) --no-print-directory faults

faults: .venv/.installed-dev
	$(BIN)/python -m tests.planted_faults

bench: .venv/.installed-dev
	$(BIN)/python -m benchmarks

coverage: .venv/.installed-dev
	$(BIN)/python -m coverage run -m pytest
	$(BIN)/python -m coverage combine -q
	$(BIN)/python -m coverage report --skip-covered

docs: install
	$(BIN)/python -m docs.reference build/docs

format: .venv/.installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv demo build dist *.egg-info
