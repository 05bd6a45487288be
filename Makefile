# Everything a newcomer needs: `make train` in a fresh clone, then `make test`.
# A GPU's build of torch: make install TORCH="torch==2.12.0+cu126" (or install torch into .venv first and say TORCH=torch).

SHELL := /bin/bash
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
TORCH ?=
RUN ?=

ifeq ($(origin PATH),undefined)
export PATH := /usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
endif

.PHONY: help
help: ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/\1\t\2/' | expand -t 14

.PHONY: install
install: $(VENV)/.train bubblewrap ## the virtual environment with .venv/bin/patchgrad, and bubblewrap where that is allowed

.PHONY: train
train: install ## base policy -> RFT -> two stages of RL -> evaluation, on this machine's CPU; ends with a table
	$(BIN)/patchgrad train laptop $(if $(RUN),--run $(RUN))

.PHONY: smoke
smoke: install ## the same path in two minutes, with no claim about skill
	$(BIN)/patchgrad train smoke $(if $(RUN),--run $(RUN))

.PHONY: demo
demo: install $(VENV)/.view ## the same, and then the page with every attempt: in the browser, or at the address that is printed
	$(BIN)/patchgrad train smoke --run $(or $(RUN),runs/demo) --resume
	$(BIN)/patchgrad view $(or $(RUN),runs/demo) $(if $(PORT),--port $(PORT))

$(VENV)/.view: pyproject.toml | $(VENV)/.train
	$(PIP) install -q -e '.[view]'
	touch $@

.PHONY: cluster-smoke
cluster-smoke: install $(VENV)/.cluster ## the same on three nodes of Ray, four ranks and two policies of this machine
	$(BIN)/patchgrad train cluster-tiny --cluster local:3 $(if $(RUN),--run $(RUN))

$(VENV)/.cluster: pyproject.toml | $(VENV)/.train
	$(PIP) install -q -e '.[cluster]'
	touch $@

.PHONY: smol
smol: install models/smollm2-135m-instruct sets/rebuilt ## the same for a language model of 135 million parameters, on real packages too
	$(BIN)/patchgrad train smol $(if $(RUN),--run $(RUN))

models/smollm2-135m-instruct: | $(VENV)/.train
	$(PIP) install -q -e '.[gguf]'
	$(BIN)/patchgrad models get smollm2-135m-instruct

sets/rebuilt: | $(VENV)/.train
	$(BIN)/patchgrad tasks rebuild sets/packages --out sets/rebuilt --partly

.PHONY: mini
mini: install $(VENV)/agents ## the same for mini-swe-agent, an agent of others, unchanged
	$(PIP) install -q -e '.[gateway]'
	$(BIN)/patchgrad train mini --agent.scaffold.python $(VENV)/agents/mini-swe-agent/bin/python $(if $(RUN),--run $(RUN))

.PHONY: test
test: install $(VENV)/.dev podman chromium $(VENV)/agents ## the tests
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -m "not slow" -n auto --maxprocesses 8 --dist worksteal

.PHONY: test-slow
test-slow: install $(VENV)/.dev agents guests ## the tests that take longer than a minute each
	$(BIN)/python -m pytest -q -m slow -o faulthandler_timeout=7200 # a hundred kills take more than the five minutes that a test has else

.PHONY: check
check: $(VENV)/.train $(VENV)/.dev ## lint, format, strict types, import rings, light import
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/house

.PHONY: docs
docs: $(VENV)/.docs ## the documentation as a site, in build/docs; a warning is an error
	$(BIN)/sphinx-build -q -W --keep-going -b html docs build/docs
	@echo "Open build/docs/index.html"

.PHONY: recording
recording: install $(VENV)/.dev ## the recording that the README shows, made anew; look at docs/images/first-run.svg before it is committed
	$(BIN)/python docs/recording/record.py
	$(BIN)/python docs/recording/draw.py

.PHONY: clean
clean: ## remove the virtual environment and caches; runs stay
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis dist build docs/reference/generated src/*.egg-info
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "patchgrad needs Python 3.11 or newer; name one, as in: make install PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
	  echo "Python cannot make a virtual environment; install its venv module, as in: apt-get install python3-venv" >&2; exit 1; }

# With TORCH given, the extra's other packages are installed beside it, because its pin would replace it; and every time, because
# the stamp does not know which torch it stands for.
$(VENV)/.train: pyproject.toml $(if $(TORCH),always) | $(BIN)/python
ifeq ($(TORCH),)
	$(PIP) install -q -e '.[train,tasks]'
else
	$(PIP) install -q -e . '$(TORCH)' $$($(BIN)/python -c 'import tomllib; \
	  extras = tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]; \
	  print(*[name for name in (*extras["train"], *extras["tasks"]) if not name.startswith("torch")])')
endif
	@touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/.train
	$(PIP) install -q -e '.[dev]'
	@touch $@

$(VENV)/.docs: pyproject.toml | $(BIN)/python
	$(PIP) install -q -e '.[docs]'
	@touch $@

# The tests of containers start an engine of their own; where none can be installed they are skipped and say so.
.PHONY: podman
podman:
	@command -v podman >/dev/null && command -v runc >/dev/null && exit 0; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "Installing podman and runc, for the tests of containers."; \
	  { apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends podman runc; } >/dev/null 2>&1 </dev/null; \
	fi; exit 0

.PHONY: chromium
chromium:
	@command -v chromium >/dev/null && exit 0; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "Installing Chromium, for the tests of the page."; \
	  { apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends chromium; } >/dev/null 2>&1 </dev/null; \
	fi; exit 0

# Agents of others, each in an environment of its own beside the project's; where one cannot be installed its tests are skipped and say so.
$(VENV)/agents: | $(BIN)/python
	@$(BIN)/python -m venv $@/mini-swe-agent && \
	{ $@/mini-swe-agent/bin/pip install -q --disable-pip-version-check 'mini-swe-agent==2.4.6' 2>/dev/null || echo "mini-swe-agent cannot be installed."; }

# Programs that run in sandboxes, 1.7 GB of them, as docs/guide/agents/*.toml start them.
PROGRAMS := @openai/codex@0.169.0 @anthropic-ai/claude-code@2.1.197 opencode-ai@1.18.33

.PHONY: agents
agents: $(VENV)/agents ## Codex, Claude Code, OpenCode and aider, for their tests
	@npm install --silent --no-audit --no-fund --prefix $(VENV)/agents $(PROGRAMS) >/dev/null || echo "npm cannot install the programs."
	@{ $(BIN)/python -m venv $(VENV)/agents/aider && $(VENV)/agents/aider/bin/pip install -q --disable-pip-version-check 'aider-chat==0.86.2' 2>/dev/null; } || echo "aider cannot be installed."

# Programs of others that take our tasks or read what we write, 2 GB and more, each in an environment of its own, at the releases that were tried.
GUESTS := inspect trl verifiers swebench harbor trackio
inspect := -e . inspect_ai==0.3.285
trl := -e '.[train]' trl==1.16.0
verifiers := -e . verifiers==0.4.0
swebench := swebench==5.0.2
harbor := harbor==0.26.0
trackio := -e '.[trackio]' 'pyarrow>=17'

.PHONY: guests
guests: $(GUESTS:%=$(VENV)/guests/%/.installed) ## inspect_ai, TRL, verifiers, SWE-bench, Harbor and Trackio, for their tests

# Harbor needs Python 3.12, which may lie beside the one of the project. What has failed is tried again by the next make.
$(VENV)/guests/%/.installed: Makefile | $(BIN)/python
	@old=$(if $(filter harbor,$*),12,11); \
	for python in $(BIN)/python python3.12 python3.13 ~/.pyenv/versions/3.1[2-9].*/bin/python; do \
	  "$$python" -c "import sys; sys.exit(sys.version_info < (3, $$old))" 2>/dev/null && break || python=""; \
	done; \
	[ -n "$$python" ] || { echo "$* is not installed: it needs Python 3.$$old."; exit 0; }; \
	said=$$("$$python" -m venv --clear $(@D) 2>&1 && $(@D)/bin/pip install -q --disable-pip-version-check $($*) 2>&1) && touch $@ || \
	  { rm -rf $(@D); echo "$* cannot be installed: $$(tail -n 1 <<< "$$said")"; }

.PHONY: always
always:

.PHONY: bubblewrap
bubblewrap:
	@command -v bwrap >/dev/null && exit 0; \
	if [ "$$(id -u)" = 0 ]; then as=""; elif sudo -n true 2>/dev/null; then as="sudo -n"; else as="no"; fi; \
	if [ "$$as" != no ] && command -v apt-get >/dev/null; then \
	  echo "Installing bubblewrap, which isolates what the agent runs."; \
	  { $$as apt-get -qq update && DEBIAN_FRONTEND=noninteractive $$as apt-get -qq install -y bubblewrap; } >/dev/null 2>&1 </dev/null; \
	fi; \
	command -v bwrap >/dev/null || echo "bubblewrap is missing, and training needs it to isolate the agent; as an administrator: apt-get install bubblewrap" >&2
