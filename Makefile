# What a developer does here. `make` alone lists it.
#   PYTHON      the Python that makes .venv, 3.11 or newer (python3)
#   ARGS        more arguments for the command: make demo ARGS=--help, make test ARGS="-k checkpoint"
#   ROOM        the tests of one room of the product, such as power, alerts or decode
#   WORKERS     how many files of tests run at the same time (4); 0: one after the other, in this terminal

PYTHON ?= python3
ARGS ?=
WORKERS ?= 4
BIN := .venv/bin
DOCS := .venv-docs/bin
LOCK := $(BIN)/uv pip compile pyproject.toml --quiet --universal --python-version 3.11 --generate-hashes \
	--no-header --no-annotate $(UPGRADE)
# a file's tests stay together, in their order: they share an agent, and each worker that needs one has its own broker
BY_FILE := -n $(WORKERS) --dist loadfile --no-loadscope-reorder
# the tests whose path has the name of the room, and those that import from it
OF_ROOM = $(if $(ROOM),$(shell .ci/tests_of $(ROOM)))
# compiled modules are written even where the environment forbids it: each worker and each agent that a test starts reads them
export PYTHONDONTWRITEBYTECODE =
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-all test-fast cases tools lint simulate quality mutate harden bench dashboards kube pictures docs wheel packages lock clean

ifeq ($(MAKECMDGOALS),demo)
$(info The demo installs what is missing, begins, and shows its pages on http://127.0.0.1:8080. Ctrl-C ends it.)
endif

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: .venv/runtime.stamp  ## the whole agent on a simulated centre, in this terminal
	@$(BIN)/scalewatch demo $(ARGS)

test: .venv/dev.stamp  ## everything once, on a real Kafka (Java 17+, Maven), Slurm (as root) and the programs of CONTRIBUTING.md; ROOM=power for a part
	@.ci/provide kafka
	@.ci/provide slurm
	@.ci/provide tools
	$(BIN)/pytest -m "not thorough" --ignore=tests/bench $(BY_FILE) $(OF_ROOM) $(ARGS)

test-all: .venv/dev.stamp  ## the same on both Kafka clients and both Slurms, with upgrades, packages, 200 crash seeds, and a Kafka in containers
	@.ci/provide kafka
	@.ci/provide slurm
	@.ci/provide tools
	SCALEWATCH_THOROUGH=1 SCALEWATCH_SIM_SEEDS=200 $(BIN)/pytest --ignore=tests/bench $(BY_FILE) $(ARGS)
	.ci/containers $(BIN)/pytest -n 0 tests/contract tests/integration/test_bad_records_kafka.py -m kafka

test-fast: .venv/dev.stamp  ## the tests that need nothing but Python
	$(BIN)/pytest --ignore=tests/bench -m "not kafka and not slurm and not tools and not slow" $(BY_FILE) $(OF_ROOM) $(ARGS)

cases: .venv/dev.stamp  ## write anew what the golden folders in tests/cases expect, and examples of new stored forms; read the difference
	SCALEWATCH_UPDATE_CASES=1 $(BIN)/pytest tests/unit/fold/test_cases.py tests/unit/decode/test_cases.py tests/contract/test_stored.py \
		-q -n 0 $(ARGS)

tools:  ## install or build the programs of others that tests run; make test does it, too
	@.ci/provide tools

lint: .venv/dev.stamp  ## ruff and mypy, as strict as they get
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

simulate: .venv/dev.stamp  ## crashes, repeats and refused writes from 1,000 seeds
	SCALEWATCH_SIM_SEEDS=1000 $(BIN)/pytest tests/sim -n auto $(ARGS)

quality: .venv/dev.stamp  ## how well the models predict: the guard, with DATA=folder of curves all tables; ARGS="--only NAME"
	$(if $(DATA),OPENBLAS_NUM_THREADS=1 $(BIN)/python -m tests.quality --data $(DATA) $(ARGS),$(BIN)/pytest tests/quality $(ARGS))

mutate: .venv/dev.stamp  ## do tests notice small faults in what predicts run times? ARGS="--seed 1 --count 150 --only PATH"
	$(BIN)/python -m tests.mutation $(ARGS)

harden: .venv/dev.stamp  ## kills on a real Kafka with each client, a million hostile records, a soak: two hours; ARGS="--only fuzz --records 100000"
	@.ci/provide kafka
	$(BIN)/python -m tests.harden $(ARGS)

bench: .venv/dev.stamp  ## speed of the hot paths, also on a real Kafka; ARGS="--quick" or ARGS="--only NAME"
	@.ci/provide kafka
	$(BIN)/python -m tests.bench $(ARGS)

dashboards: .venv/dev.stamp  ## Grafana's dashboards, as files of the chart, from deploy/grafana
	@$(BIN)/python -m deploy.grafana

kube: .venv/dev.stamp  ## the chart's life on a Kubernetes: KUBE=folder of its programs, or the cluster of KUBECONFIG; ARGS=--help
	$(BIN)/python -m tests.deploy.kube $(if $(KUBE),--programs $(KUBE)) $(ARGS)

pictures: .venv/dev.stamp  ## deploy/pictures, the pages of the demo in a real Chromium, and the picture of the concepts; minutes
	$(BIN)/python -m tests.pictures $(ARGS)
	$(BIN)/python -m deploy.site.picture

docs: .venv-docs/docs.stamp  ## the documentation as a site, in build/site; every link in it is checked
	NO_MKDOCS_2_WARNING=1 $(DOCS)/python -m mkdocs build --strict
	$(DOCS)/python -m deploy.site build/site

wheel: .venv/dev.stamp  ## dist/*.whl, built with the locked tools
	@rm -rf dist
	$(BIN)/python -m build --no-isolation --wheel --outdir dist

packages: wheel  ## all of a release, in dist: wheel, .deb, .rpm, image, chart, what is in them; ARGS="--only deb" for a part
	@.ci/provide tools
	$(BIN)/python -m deploy.packages dist --helm "$$(.ci/build --where | grep /helm3$$)" $(ARGS)

lock: .venv/dev.stamp  ## pin the dependencies anew; UPGRADE=--upgrade takes newer ones
	$(BIN)/pip install --quiet uv
	$(LOCK) --group dev --output-file requirements-dev.lock
	$(LOCK) --constraint requirements-dev.lock --output-file requirements.lock
	$(LOCK) --group docs --constraint requirements-dev.lock --output-file requirements-docs.lock
	$(subst compile pyproject.toml,compile,$(LOCK)) --group build --constraint requirements-dev.lock \
		--output-file requirements-build.lock

clean:  ## remove what was made, the environment too
	rm -rf .venv .venv-docs dist build htmlcov .coverage .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find agent processors sinks tests -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/bin/python:
	@PYTHON="$(PYTHON)" .ci/provide venv

# A lock is whole, so pip resolves nothing: asked to, it once took a package's newest release for its extra, which has no hash here.
# the stamps are as old as the last install: an unchanged lock is not installed again
.venv/runtime.stamp: requirements.lock requirements-build.lock pyproject.toml | .venv/bin/python
	@echo "Installing what the agent needs into .venv"
	@.ci/provide packages --no-deps --require-hashes -r requirements.lock -r requirements-build.lock
	@$(BIN)/pip install --quiet --no-build-isolation --no-deps --editable .
	@touch $@

.venv/dev.stamp: requirements-dev.lock pyproject.toml | .venv/bin/python
	@echo "Installing what tests and checkers need into .venv"
	@.ci/provide packages --no-deps --require-hashes -r requirements-dev.lock
	@$(BIN)/pip install --quiet --no-build-isolation --no-deps --editable .
	@touch $@ .venv/runtime.stamp

.venv-docs/docs.stamp: requirements-docs.lock
	@echo "Installing what makes the site into .venv-docs"
	@VENV=.venv-docs PYTHON="$(PYTHON)" .ci/provide venv
	@$(DOCS)/pip install --quiet --no-deps --require-hashes -r requirements-docs.lock
	@touch $@
