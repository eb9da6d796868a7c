# make sweep   runs the quickstart sweep to a table and a report
# make test    runs the tests
PYTHON ?= python3
VENV := .venv
STAMP := $(VENV)/.installed

.PHONY: sweep test lint clean

sweep: $(STAMP)
	$(VENV)/bin/cake-tune sweep sweeps/cpu-quickstart.yaml --emit

test: $(STAMP)
	$(VENV)/bin/python -m pytest

lint: $(STAMP)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1' -c constraints.txt
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --editable '.[cuda]' --group dev
	touch $(STAMP)

clean:
	rm -rf $(VENV)
