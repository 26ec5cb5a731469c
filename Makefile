# Entry point of all tasks; `make` lists the targets.
.DEFAULT_GOAL := help
SHELL := /bin/bash
CUTOVER := .venv/bin/cutover
PYTEST := .venv/bin/pytest
XDIST := -n auto --dist loadscope --no-loadscope-reorder
KINDS := unit spec property dags faults e2e integration
CAPABILITIES := tests/unit/scenarios/test_figures.py tests/property/test_paths_agree.py \
	tests/property/panes/test_streaming_runner.py tests/integration/streaming/test_simulate.py tests/integration/streaming/test_measures.py \
	tests/integration/reconcile/attribution/test_lookups.py tests/integration/streaming/driver/test_delivery.py
FAULT ?=
PART ?=
export CUTOVER_TEST_PART = $(PART)
DRILL ?=
SECONDS ?= 1800
EPOCHS ?= 10000
FLIPS ?= 200
LINES ?= 25
# Many containers set it, and then each process compiles all that it imports, and each worker rewrites all tests again.
unexport PYTHONDONTWRITEBYTECODE
SEED ?= $(shell date +%s)
.PHONY: $(shell sed -n 's/^\([a-z0-9-]*\):.*\#\#.*/\1/p' $(firstword $(MAKEFILE_LIST)))

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## create .venv from the lock and fetch the JARs (idempotent)
	@bash infra/bootstrap.sh

demo: setup ## run the demonstration on a year of flights; Airflow keeps running
	@$(CUTOVER) demo

demo-cutover: setup ## in .cutover-demo: retire batch on evidence, detect a planted defect, roll back to batch; it keeps running
	@if [ -d .cutover-demo ]; then CUTOVER_HOME=.cutover-demo $(CUTOVER) down; rm -rf .cutover-demo; fi
	@CUTOVER_HOME=.cutover-demo $(CUTOVER) demo --cutover

demo-adopt: setup ## in .cutover-adopt: adopt a streaming job and a batch job that know nothing of Cutover, and compare them
	@.venv/bin/python -m cutover.samples.own_jobs.demonstration

up: setup ## start the broker and Airflow
	@$(CUTOVER) up

down: ## stop all processes of the installation
	@if [ -x $(CUTOVER) ]; then $(CUTOVER) down; fi

status: setup ## show the running processes and their addresses
	@$(CUTOVER) status

lint: setup ## run ruff and mypy, and check the layers
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .
	@.venv/bin/mypy
	@.venv/bin/lint-imports --no-cache

test: setup ## run linters, mypy and all tests in parallel, the longest first
	@.venv/bin/ruff check . && .venv/bin/ruff format --check . && .venv/bin/lint-imports --no-cache
	@.venv/bin/mypy & types=$$!; \
	$(PYTEST) $(XDIST) $(wildcard $(addprefix tests/,$(KINDS))); tests=$$?; \
	wait $$types && exit $$tests

test-long: setup ## run the tests of slow kinds that `make test` leaves out: about half an hour
	@$(PYTEST) $(XDIST) -m long $(wildcard $(addprefix tests/,$(filter-out faults,$(KINDS))))

test-unit: setup ## test pure functions
	@$(PYTEST) tests/unit

test-spec: setup ## test tables of input and expected results, on every path
	@$(PYTEST) tests/spec

test-property: setup ## compare reference, batch and stream on generated logs
	@$(PYTEST) -m '' tests/property

report-size: setup ## measure the largest possible report; writes into docs/report.md
	@.venv/bin/python -m tests.support.pages.report_size docs/report.md

report-pictures: setup ## take the screenshots of reports again, for the docs and for comparisons in tests
	@.venv/bin/python -m tests.support.pages.pictures

test-nightly: setup ## every property with many examples, generated with SEED=...: 200 logs, 60 runs of driver actions (about an hour)
	$(PYTEST) -m hypothesis tests/unit tests/integration --hypothesis-profile=nightly --hypothesis-seed=$(SEED) --timeout=7200
	CUTOVER_TEST_COMPILED=1 $(PYTEST) -m '' tests/property --hypothesis-profile=nightly --hypothesis-seed=$(SEED) --timeout=7200

alert-rules: setup ## generate infra/alerts/, the tables of alerts in docs/ and the heads of runbooks from the list of alerts
	@.venv/bin/python -m cutover.reconcile.watch.alerts.catalogue

capabilities: setup ## generate docs/capabilities.md from the tests of the runners' capabilities
	@rm -f build/capabilities.jsonl; mkdir -p build
	@CUTOVER_CAPABILITIES=build/capabilities.jsonl $(PYTEST) -m '' $(CAPABILITIES); code=$$?; \
	.venv/bin/python -m tests.support.pages.capability_table build/capabilities.jsonl docs/capabilities.md; exit $$code

diff-cases: build/bench/datacompy ## compare pairs of tables with four tools that disagree on them; writes docs/diff-cases.md
	@.venv/bin/python -m tests.support.diff.diff_case_page docs/diff-cases.md
	@$(PYTEST) -n0 tests/integration/reconcile/diff/test_diff_cases.py

test-dags: setup ## test the DAGs and their tasks
	@$(PYTEST) tests/dags

test-integration: setup ## test with real Kafka, Spark and Delta, the long tests too
	@$(PYTEST) -m '' tests/integration

test-e2e: setup ## test whole chains, in which processes are killed
	@$(PYTEST) -m '' tests/e2e

test-faults: setup ## run the quick fault tests
	@$(PYTEST) tests/faults

faults: setup ## inject every fault (FAULT=F04: some of them) and generate docs/faults.md from the results
	@$(if $(FAULT)$(PART),,rm -f docs/faults.jsonl)
	@CUTOVER_TEST_COMPILED=1 CUTOVER_FAULT_RESULTS=docs/faults.jsonl $(PYTEST) $(XDIST) tests/faults -m '' $(if $(FAULT),-k '$(FAULT)'); code=$$?; \
	.venv/bin/python -m tests.faults.table docs/faults.jsonl docs/faults.md && exit $$code

faults-random: setup ## inject 3 to 6 faults at the same time for SECONDS=1800 with SEED=..., then run every check
	@.venv/bin/python -m tests.faults.random_mode --seconds $(SECONDS) --seed $(SEED); code=$$?; \
	.venv/bin/python -m tests.faults.table docs/faults.jsonl docs/faults.md; exit $$code

drills: setup ## cause every alert on an embedded stack and follow its runbook (DRILL=NoInput: one); writes docs/drills.md and the runbooks' heads
	@$(CUTOVER) drill $(if $(DRILL),$(DRILL),--all) --results docs/drills.json; code=$$?; \
	.venv/bin/python -m cutover.infra.drills.sequence docs/drills.json docs/drills.md; exit $$code

flips: setup ## flip FLIPS=200 bits in each kind of file of a lake, with SEED=...: no wrong verdict, no traceback
	@.venv/bin/python -m tests.support.comparison.flips --flips $(FLIPS) --seed $(SEED) $(if $(PART),--part $(PART))

mutations: setup ## break LINES=25 lines of the kernel, each in a copy, with SEED=...: the tests that fail (docs/tests.md)
	@.venv/bin/python -m tests.mutations --seed $(SEED) --lines $(LINES)

transfers: setup ## test all balances at 200 random epochs, of 250 small epochs of bank transfers with two killed drivers
	@$(PYTEST) tests/integration/streaming/driver/test_transfers.py -m ''

test-cluster: setup ## opt-in: run both paths on two workers of a Spark cluster, and kill an executor of each
	@$(PYTEST) tests/cluster

jars-s3: setup ## fetch the JARs for a lake in an object store (0.7 GB; not part of setup)
	@.venv/bin/python -m cutover.infra.install.jars s3

test-object-store: jars-s3 ## opt-in: run both paths and the reconciler with an S3-compatible server on loopback
	@bash tests/object_store/setup.sh
	@$(PYTEST) tests/object_store

nightly: setup ## run every opt-in target (ONLY=test-cluster,... for some; MINUTES=40 for a while) in sequence; writes docs/tests.md (hours)
	@.venv/bin/python -m tests.nightly $(if $(ONLY),--only $(ONLY)) $(if $(MINUTES),--minutes $(MINUTES))

bench: build/bench/datacompy ## measure the figures of docs/benchmarks.md (ONLY=epoch,batch for some; ARGS="--scale 0.05" for a quick run)
	@PYTHONPATH=build/bench .venv/bin/python -m benchmarks $(if $(ONLY),--only $(ONLY)) $(ARGS)

soak: setup ## detect growth of times, files and memory over EPOCHS=10000 small epochs (about an hour and a half; docs/soak.md)
	@.venv/bin/python -m benchmarks.soak --epochs $(EPOCHS) $(ARGS)

many-keys: setup ## measure the memory of the driver's two processes with five million keys in open windows (docs/soak.md)
	@.venv/bin/python -m benchmarks.many_keys $(ARGS)

skew: setup ## measure epochs with one large key, and with ten times the keys, against uniform ones (docs/soak.md)
	@.venv/bin/python -m benchmarks.spikes.skew $(ARGS)

build/bench/datacompy: benchmarks/requirements.txt | setup # only the peer, outside of .venv
	@.venv/bin/uv pip install --quiet --python .venv/bin/python --target build/bench --no-deps --require-hashes -r $<
	@touch $@

lock: setup ## resolve infra/requirements.in again, into the hashed lock
	@.venv/bin/uv pip compile infra/requirements.in -o infra/requirements.txt --universal --python-version 3.11 --generate-hashes --no-header
	@.venv/bin/uv pip compile benchmarks/requirements.in -c infra/requirements.txt -o benchmarks/requirements.txt --universal \
		--python-version 3.11 --generate-hashes --no-header \
		$$(sed -n 's/^\([a-z0-9._-]*\)==.*/--no-emit-package \1/p' infra/requirements.txt)

clean: ## remove caches
	@rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build *.egg-info
	@find . -name __pycache__ -type d -not -path './.venv/*' -prune -exec rm -rf {} +

purge: down ## stop all processes, then delete the state (.cutover): log, tables, reports
	@rm -rf "$${CUTOVER_HOME:-.cutover}"
