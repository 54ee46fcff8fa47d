PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
WANTED = $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Retinue needs Python 3.11 or newer; say PYTHON=…")'
DEMO := PYTHONPATH=src .demo/bin/python -m retinue
# processes for the tests: one more than there are cores, for some tests wait; each process collects all of them
WORKERS := $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) + 1)))

# kept compiled, whatever the environment says: else each of the processes compiles everything once more
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help setup model demo demo-docs test test-all test-rest long lint fix eval tasks teams memory fuzz conformance schemathesis screens sandbox alerts studio chaos chaos-cluster upgrades simulate planted bench clients engines chart image release site packages picture lock

help: ## Show what there is
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

setup: .venv/installed ## Make .venv with everything locked in requirements/

.venv/installed: requirements/dev.txt pyproject.toml
	$(WANTED)
	$(PYTHON) -m venv .venv
	@# uv installs the rest in seconds; where it knows of no index that has all of it, pip does
	@awk '/^uv==/ {found = 1} found; found && !/\\$$/ {exit}' requirements/dev.txt > .venv/uv.txt
	$(BIN)/python -m pip install --disable-pip-version-check --quiet --require-hashes -r .venv/uv.txt
	$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements/dev.txt \
		|| $(BIN)/python -m pip install --disable-pip-version-check --require-hashes -r requirements/dev.txt
	$(BIN)/python -m pip install --disable-pip-version-check --quiet --no-deps --no-build-isolation -e .
	@touch $@

model: setup ## Fetch the embedded model (1.1 GB, once), the embedder (23 MB) and Whisper (148 MB) into the user's cache folder
	$(BIN)/retinue models pull embedded
	$(BIN)/retinue models pull minilm
	$(BIN)/retinue models pull whisper-base

demo: .demo/installed ## Answer two questions with the embedded model (fetched once, 1.1 GB); installs no development tools
	$(DEMO) models pull embedded
	$(DEMO) models pull minilm
	$(DEMO) ask "Who is Olivia Wilde's boyfriend? What is his current age raised to the 0.23 power?" \
		--passages data/demo/passages.jsonl
	@echo
	$(DEMO) ask "What creature of American folklore gained notoriety in 1964?" \
		--passages data/hotpotqa/passages.jsonl --rank

.demo/installed: requirements/demo.txt
	$(WANTED)
	$(PYTHON) -m venv .demo
	.demo/bin/python -m pip install --disable-pip-version-check --quiet --require-hashes -r requirements/demo.txt
	@touch $@

demo-docs: .demo-docs/installed ## Answer questions about Retinue from its documentation, the web and its issues (DEMO_DOCS=--serve: in the studio)
	PYTHONPATH=src .demo-docs/bin/python -m retinue models pull embedded
	PYTHONPATH=src .demo-docs/bin/python -m retinue models pull minilm
	PYTHONPATH=src .demo-docs/bin/python examples/technical_docs/demo.py $(DEMO_DOCS)

.demo-docs/installed: requirements/demo-docs.txt
	$(WANTED)
	$(PYTHON) -m venv .demo-docs
	.demo-docs/bin/python -m pip install --disable-pip-version-check --quiet --require-hashes -r requirements/demo-docs.txt
	@touch $@

ORDER := $(if $(SHUFFLE),--shuffle $(SHUFFLE))
SIDE_BY_SIDE := $(BIN)/pytest -m "not model" -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(ORDER)
WITH_MODEL = $(BIN)/pytest -m "model and not long" $(shell grep -rlE 'mark\.model\b' tests --include='test_*.py')

test: model ## Run the tests before each commit, with samples of matrices (SHUFFLE=42: in a random order)
	$(SIDE_BY_SIDE)
	$(WITH_MODEL)

test-all: model ## Run all tests, with the whole of each matrix
	$(SIDE_BY_SIDE) --full
	$(WITH_MODEL) --full

test-rest: model ## Run what `make test` leaves out
	$(SIDE_BY_SIDE) --rest
	$(WITH_MODEL) --rest

long: model ## Run the tests that take half a minute or more: with the embedded model, and the commands of the docs for a checkout
	$(BIN)/pytest -m long -o faulthandler_timeout=1800

STUDIO := src/retinue/studio/static
IN_STUDIO := $(BIN)/node .studio/node_modules/.bin
BIOME := $(IN_STUDIO)/biome check --config-path=tools/studio_check --error-on-warnings

lint: setup .studio/installed ## Check format, style, types and the direction of imports, also of the studio's JavaScript
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIOME) $(STUDIO)
	$(IN_STUDIO)/tsc --project tools/studio_check
	@! grep -rL --include='*.js' --exclude-dir=vendor '^// @ts-check' $(STUDIO) | grep .

.studio/installed: .venv/installed tools/studio_check/package-lock.json
	@mkdir -p .studio
	cp tools/studio_check/package.json tools/studio_check/package-lock.json tools/studio_check/.npmrc .studio
	cd .studio && ../$(BIN)/npm ci --silent
	@touch $@

fix: setup .studio/installed ## Format and mend what can be mended
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIOME) --write $(STUDIO)

eval: model ## Answer HotpotQA's questions with react and careful, into bench/RESULTS.md (resumable; half an hour)
	$(BIN)/python -m bench.hotpotqa --data data/hotpotqa --out bench

tasks: model ## Give ten small tasks to the embedded model under each strategy, into bench/RESULTS.md (resumable)
	$(BIN)/python -m bench.tasks --out bench

teams: model ## Ask a team of two workers fifteen questions, into bench/RESULTS.md (resumable)
	$(BIN)/python -m bench.teams --out bench

memory: model ## Have a conversation of thirty turns and see what entity memory holds, into bench/RESULTS.md (two minutes on idle cores)
	$(BIN)/python -m bench.memory

screens: ## Install Chromium and tmux, in which the studio and the terminal are tested (as root; elsewhere install them yourself)
	@(command -v chromium || command -v chromium-browser || command -v google-chrome) >/dev/null && command -v tmux >/dev/null \
		|| (apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium tmux)

sandbox: ## Install bubblewrap, in which commands of agents run (as root; elsewhere install it yourself)
	@command -v bwrap >/dev/null || (apt-get update -qq && apt-get install -y -qq --no-install-recommends bubblewrap)

alerts: ## Check the alert rules, and that each fires when it should (installs promtool, as root; elsewhere install it yourself)
	@command -v promtool >/dev/null || (apt-get update -qq && apt-get install -y -qq --no-install-recommends prometheus)
	promtool check rules deploy/alerts.yml
	promtool test rules deploy/alerts_test.yml

studio: setup screens ## Take the pictures of docs/studio, and measure the studio into bench/RESULTS.md (a minute)
	PYTHONPATH=tests:tools $(BIN)/python -m studio_report

picture: model screens ## Take the README's picture of a question in a terminal, with the embedded model on idle cores
	PYTHONPATH=tests:tools $(BIN)/python -m studio_report.terminal_capture

fuzz: setup ## Read 100,000 generated and mutated replies with every parser; try each property of the tests with new examples
	$(BIN)/python -m bench fuzz
	$(BIN)/pytest -m "hypothesis and not model" --hypothesis-profile=new -n $(WORKERS) --dist loadfile

conformance: setup ## Run the openai SDK's own tests against the server and report into bench/RESULTS.md
	PYTHONPATH=tests:tools $(BIN)/python -m conformance

schemathesis: setup ## Try every operation of the server with more than 10,000 requests and report into bench/RESULTS.md (a quarter of an hour)
	PYTHONPATH=tests:tools $(BIN)/python -m fuzzing

chaos: setup ## Kill, cancel and answer runs of a real server some 500 times, and of agents in Python some 350 times, into docs/reliability.md (an hour; CHAOS=kills for a part)
	PYTHONPATH=tests:tools $(BIN)/python -m chaos $(CHAOS)

chaos-cluster: setup ## Kill, stop and restart workers and PostgreSQL under load, and less so with Temporal, into docs/reliability.md (half an hour; CHAOS=deaths for a part)
	PYTHONPATH=tests:tools $(BIN)/python -m chaos.cluster_report $(CHAOS)

upgrades: setup ## Replace two servers and two workers one by one under load, from the version before and to a planted next one (some minutes)
	PYTHONPATH=tests:tools $(BIN)/python -m upgrades

SIMULATION := PYTHONPATH=tests:tools $(BIN)/python -m simulation

ifdef SEED
simulate: setup
	$(SIMULATION) --seed $(SEED) --drop "$(DROP)"
else
simulate: setup ## Find the bugs that are planted, then try 100,000 schedules of three simulated servers (SEED=42 shows one; SIMULATE="--schedules 1000" tries fewer)
	$(SIMULATION) --planted
	$(SIMULATION) --report $(SIMULATE)
endif

planted: setup ## Plant some thirty breakages in a copy of src, one at a time, and see which test finds each (PLANTED=--rest: of `make test-rest`)
	PYTHONPATH=tools $(BIN)/python -m planted $(PLANTED)

bench: setup ## Measure Retinue against the floor and report into bench/RESULTS.md
	$(BIN)/python -m bench

chart: .chart/installed ## Lint, render and validate the Helm chart, and misspell its values (CHART=--update keeps new renders)
	PYTHONPATH=tests:tools .chart/bin/python -m chart_check $(CHART)

image: .chart/installed ## Carry out deploy/Dockerfile without a container engine, and start what it makes (two minutes)
	PYTHONPATH=tests:tools .chart/bin/python -m image_check

.chart/installed: requirements/chart.txt tools/chart_check/helm.py
	$(WANTED)
	$(PYTHON) -m venv .chart
	.chart/bin/python -m pip install --disable-pip-version-check --quiet --no-deps --require-hashes -r requirements/chart.txt
	.chart/bin/python tools/chart_check/helm.py
	@touch $@

clients: setup .clients/installed ## Try the server with other frameworks' clients and Codex CLI, which it installs (half a minute)
	$(BIN)/pytest --full tests/clients

.clients/installed: requirements/clients.txt tests/clients/programs/package-lock.json
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python .clients
	$(BIN)/uv pip install --quiet --python .clients/bin/python --require-hashes -r requirements/clients.txt
	cp tests/clients/programs/package.json tests/clients/programs/package-lock.json tests/clients/programs/.npmrc .clients
	cd .clients && ../$(BIN)/npm ci --silent
	@touch $@

engines: setup .engines/installed ## Try our models at other people's gateway and emulator of vendors, which it installs (two minutes)
	$(BIN)/pytest --full tests/clients/test_outside_engines.py

.engines/installed: requirements/engines.txt tests/clients/engines/package-lock.json
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python .engines
	$(BIN)/uv pip install --quiet --python .engines/bin/python --require-hashes -r requirements/engines.txt
	cp tests/clients/engines/package.json tests/clients/engines/package-lock.json tests/clients/engines/.npmrc .engines
	cd .engines && ../$(BIN)/npm ci --silent
	@touch $@

packages: setup ## Build the wheel and the source distribution, and try them away from this tree (two minutes)
	$(BIN)/pytest --full tests/release/test_packages.py

release: setup .release/installed ## Build and check all of a release, into dist/ (VERSION=0.1.0 makes the changelog's section first)
	.release/bin/python -m releasing $(if $(VERSION),--version $(VERSION))

.release/installed: requirements/release.txt
	$(WANTED)
	$(PYTHON) -m venv .release
	.release/bin/python -m pip install --disable-pip-version-check --quiet --require-hashes -r requirements/release.txt
	@touch $@

site: setup .site/installed ## Build the documentation site into site/ (a broken link, anchor or navigation is an error)
	$(BIN)/python -m manual .site/pages
	NO_MKDOCS_2_WARNING=1 .site/bin/mkdocs build --strict --clean --config-file .site/pages/mkdocs.yml

.site/installed: requirements/site.txt
	$(WANTED)
	$(BIN)/uv venv --quiet --clear --python $(PYTHON) .site
	$(BIN)/uv pip install --quiet --python .site/bin/python --require-hashes -r requirements/site.txt
	@touch $@

LOCKED := --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header
IN_DEMO_DOCS := local rank web documents server
IN_IMAGE := server postgres temporal telemetry mcp web documents sandbox

lock: setup ## Resolve the locked requirements anew
	$(BIN)/uv pip compile $(LOCKED) pyproject.toml --extra all --group dev --group build -o requirements/dev.txt
	$(BIN)/uv pip compile $(LOCKED) pyproject.toml --extra local --extra rank -c requirements/dev.txt -o requirements/demo.txt
	$(BIN)/uv pip compile $(LOCKED) pyproject.toml $(addprefix --extra ,$(IN_DEMO_DOCS)) -c requirements/dev.txt -o requirements/demo-docs.txt
	$(BIN)/uv pip compile $(LOCKED) pyproject.toml $(addprefix --extra ,$(IN_IMAGE)) -c requirements/dev.txt -o requirements/image.txt
	$(BIN)/uv pip compile $(LOCKED) --group build -c requirements/dev.txt -o requirements/build.txt
	$(BIN)/uv pip compile $(LOCKED) --group chart --override requirements/chart.overrides -o requirements/chart.txt
	$(BIN)/uv pip compile $(LOCKED) pyproject.toml --extra all --extra up -c requirements/dev.txt -o requirements/all.txt
	$(BIN)/uv pip compile $(LOCKED) --group clients -o requirements/clients.txt
	$(BIN)/uv pip compile $(LOCKED) --group engines -o requirements/engines.txt
	$(BIN)/uv pip compile $(LOCKED) --group release -c requirements/dev.txt -o requirements/release.txt
	$(BIN)/uv pip compile $(LOCKED) --group site -c requirements/dev.txt -o requirements/site.txt
