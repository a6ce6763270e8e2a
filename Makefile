PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: install demo test lint format bench lowest docs docs-check clean

install: $(STAMP)

$(STAMP): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $(STAMP)

demo: install
	$(BIN)/python examples/demo.py

test: install lint
	$(BIN)/python -m pytest -n 2 --dist loadfile

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: install
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: install
	$(BIN)/python -m benchmarks

# An environment of its own with exactly the lowest versions that pyproject.toml declares.
LOWEST := out/lowest
lowest:
	$(PYTHON) -m venv --clear $(LOWEST)
	grep -oE '"[a-z-]+>=[0-9.]+"' pyproject.toml | tr -d '"' | sed 's/>=/==/' > $(LOWEST)/versions
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check \
		--constraint $(LOWEST)/versions -e '.[cli,vtk,xarray]' pytest pytest-xdist hypothesis
	$(LOWEST)/bin/python -m pytest tests/linalg tests/solution tests/solving/test_shorthand.py \
		tests/test_cli.py

# The site, in an environment of its own: out/site/index.html. Its check needs Chromium too.
DOCS := out/docs-venv
$(DOCS)/.installed: pyproject.toml
	test -x $(DOCS)/bin/python || $(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	touch $(DOCS)/.installed

docs: $(DOCS)/.installed
	$(DOCS)/bin/python -m docs.builder

docs-check: $(DOCS)/.installed
	$(DOCS)/bin/python -m docs.builder.browser

clean:
	rm -rf .venv out tests/.compiled .pytest_cache .mypy_cache .ruff_cache
