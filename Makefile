# Each recipe makes .venv by itself when it is missing or older than pyproject.toml.
# Needs make and a Python of 3.11 or newer; `make clean test PYTHON=/path/to/python` takes another one.

.DEFAULT_GOAL := help
.PHONY: help demo test crash-matrix scenarios check format bench clean

# The first that runs and is new enough: a name on the PATH need not work.
ifndef PYTHON
PYTHON := $(shell for p in python3.13 python3.12 python3.11 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo $$p && break; done)
endif

BIN := .venv/bin
READY := .venv/.ready

# Most tests wait for disks, clocks and processes most of the time, so two cores play this many at once.
SIDE_BY_SIDE := 6

# The tests start hundreds of processes, and each would compile Remit anew.
unexport PYTHONDONTWRITEBYTECODE

help: ## list the recipes
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(READY) ## run the procurement story: payments die, come back, and are made only while they are allowed
	$(BIN)/python -m examples.procurement.demo $(ARGS)

test: $(READY) ## run the tests, on SQLite and a real Postgres; ARGS="-k words" picks some
ifdef ARGS
	$(BIN)/python -m pytest $(ARGS)
else
	$(BIN)/python -m pytest -n $(SIDE_BY_SIDE) --dist worksteal
endif

crash-matrix: $(READY) ## kill a process at every place around an effect; ARGS="sqlite" plays one store
	$(BIN)/python -m tests.crash.effects_matrix $(ARGS)

scenarios: $(READY) ## play nine ways in which durable work goes wrong, and count the payments at the bank
	$(BIN)/python -m tests.scenarios.table

check: $(READY) ## lint, format, types, and the order of the rooms
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy src tests $(wildcard examples bench)
	$(BIN)/lint-imports --no-logo --no-cache

format: $(READY) ## rewrite the source as `make check` wants it
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY) ## measure, and print the figures with the machine's own
	$(BIN)/python -m bench $(ARGS)

clean: ## remove what the recipes made
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A crash in here leaves no stamp, so the next call goes on from what is there.
$(READY): pyproject.toml constraints.txt
	@sh .ci/venv .venv "$(PYTHON)"
	@echo "Installing Remit and its tools into .venv ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@
