# make sweep   runs the quickstart sweep to a table and a report
# make test    runs the tests
# make studies writes the committed reports on how well plans are chosen anew, from the committed journals, and the one
#              on how well tables are fitted, from simulated devices: 40 minutes of processor time and more
PYTHON ?= python3
VENV := .venv
STAMP := $(VENV)/.installed
# The FlashInfer releases whose planners and signatures the tests compare with ours: the oldest that is supported, and
# the newest that is known. Their wheels are read, never installed: what they need is not needed for that.
FLASHINFER := 0.7.2 0.7.4
WHEELS := $(FLASHINFER:%=$(VENV)/flashinfer/flashinfer_python-%-py3-none-any.whl)

.PHONY: sweep test lint studies clean

sweep: $(STAMP)
	$(VENV)/bin/cake-tune sweep sweeps/cpu-quickstart.yaml --emit

test: $(STAMP) $(WHEELS)
	$(VENV)/bin/python -m pytest --hypothesis-profile repeatable

lint: $(STAMP)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

H200 := results/nvidia-h200
SECOND := results/second/nvidia-h200

studies: $(STAMP)
	$(VENV)/bin/cake-tune study gpu $(H200)/dsv4-nvfp4 $(SECOND)/dsv4-nvfp4 --held-out $(H200)/dsv4-nvfp4-heldout --out $(H200)/study
	$(VENV)/bin/cake-tune study gpu $(H200)/dsv4-nvfp4-short $(SECOND)/dsv4-nvfp4-short --held-out $(H200)/dsv4-nvfp4-heldout --aa $(H200)/dsv4-nvfp4 --out $(H200)/study-short
	$(VENV)/bin/cake-tune study fit

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1' -c constraints.txt
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --editable '.[cuda]' --group dev
	touch $(STAMP)

$(WHEELS): $(VENV)/flashinfer/flashinfer_python-%-py3-none-any.whl: | $(STAMP)
	$(VENV)/bin/python -m pip download --quiet --disable-pip-version-check --no-cache-dir --no-deps --only-binary :all: --dest $(@D) flashinfer-python==$*

clean:
	rm -rf $(VENV)
