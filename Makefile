# Every target sets up what it needs; `make help` lists them.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
DEMO   := .demo

.DEFAULT_GOAL := help
.PHONY: help install poppler demo test lint typecheck pytest prove docs smoke bench figures precision gpu format clean

help: ## List the targets
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

install: $(READY) poppler ## Make .venv with colret and its development tools

$(READY): pyproject.toml hatch_build.py colret/kernels/kernels.c
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "colret needs Python 3.11 or newer: make PYTHON=python3.11 ..."; exit 1; }
	@echo "Installing into $(VENV) (a few minutes, once) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

poppler:
	@command -v pdftoppm >/dev/null || { \
	  [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq >/dev/null && \
	    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq poppler-utils >/dev/null 2>&1; } || \
	  echo "poppler is missing, so pypdfium2 renders pages. To have it: apt install poppler-utils, or brew install poppler"

demo: $(READY) poppler ## Ingest the sample documents and ask three questions
	$(BIN)/colret ingest examples --index $(DEMO)
	$(BIN)/colret query --index $(DEMO) -k 3 --queries examples/questions.txt

test: $(READY) poppler lint typecheck pytest smoke ## Run everything that CI runs

lint: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports --no-logo

typecheck: $(READY)
	$(BIN)/mypy

pytest: $(READY)
	HF_HUB_OFFLINE=1 $(BIN)/pytest -n logical --maxprocesses 4 --dist loadfile

prove: $(READY) poppler ## Run the long proofs: hundreds of kills, soaks, 10,000 pages (about an hour)
	HF_HUB_OFFLINE=1 COLRET_HYPOTHESIS=fresh $(BIN)/pytest --prove -m prove

docs: $(READY) ## Write anew what README and docs show on a console
	HF_HUB_OFFLINE=1 $(BIN)/pytest -q tests/test_console_blocks.py --update-docs

smoke: $(READY) ## Install the built wheel elsewhere and start it
	@rm -rf build/smoke && mkdir -p build/smoke
	@$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir build/smoke .
	@$(PYTHON) -m venv build/smoke/venv
	@build/smoke/venv/bin/python -m pip install --quiet --disable-pip-version-check click
	@build/smoke/venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps build/smoke/*.whl
	cd build/smoke && venv/bin/colret --help >/dev/null && venv/bin/colret --version

figures: $(READY) ## Measure retrieval on labelled sets: make figures DATA="FOLDER..."
	env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE $(BIN)/colret eval run $(DATA) --model embedded --out build/figures

precision: $(READY) ## Compare bfloat16 with float32 on labelled sets: make precision DATA="FOLDER..."
	$(BIN)/python -m colret_eval.precision $(DATA)

gpu: $(READY) ## Run the tests that need CUDA, and print how CUDA and the CPU agree
	@if $(BIN)/python -c 'import sys, torch; sys.exit(not torch.cuda.is_available())'; then \
	  HF_HUB_OFFLINE=1 $(BIN)/pytest -m gpu && $(BIN)/python -m colret_eval.gpu examples; \
	else echo "no CUDA device here: nothing was run"; fi

SIZES  ?= 1000,10000
BENCHED := $(VENV)/.bench

bench: $(BENCHED) ## Measure colret beside its rivals: make bench DATA="FOLDER..." SIZES=1000,10000 BENCH="--large 100000"
	env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE $(BIN)/python -m colret_eval.bench \
	  $(if $(DATA),--data $(DATA)) --sizes $(SIZES) --out build/bench $(BENCH)

$(BENCHED): $(READY)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[bench]' 2>/dev/null || \
	  echo "some rivals cannot be had here; the report says which"
	@touch $@

format: $(READY) ## Format the code
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

clean: ## Remove the environment and everything built
	rm -rf $(VENV) $(DEMO) build dist
