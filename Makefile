# Every target does its own set-up: an environment in .venv, exact versions, hashes checked. PYTHON=... chooses the Python.
# Paths are relative on purpose: make cannot handle blanks in the names of targets.

PYTHON ?=
PY := .venv/bin/python
STATE ?= .tj
PYTEST_ARGS ?=
BENCH_ARGS ?=
SHARE ?= 1
BASE ?= main
IMAGE ?=
IMAGE_PYTHON ?=
REDIS_IMAGE ?=
# Empty: not set. Tests start hundreds of processes, and each would compile the product anew.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help demo test test-changed test-long test-random sim sim-all test-real test-sdk test-compose test-cluster test-alerts test-frameworks check verify generate control-plane bench peer up clean setup bugs mutants chaos poison test-browser screenshots test-chart chart site release
.DEFAULT_GOAL := help

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' Makefile

demo: setup  ## a real elastic training run on this machine, from start to end (about 2 minutes)
	@$(PY) -m tjworker.cli demo $(if $(PLAIN),--plain)

test: setup  ## the default test suite (some 3 minutes on 2 cores)
	@$(PY) -m pytest -q -n auto --dist loadgroup $(PYTEST_ARGS)

test-changed: setup  ## the tests of what differs from main (BASE=HEAD~1: from another commit), in seconds
	@$(PY) -m tests.changed --base $(BASE) -- $(PYTEST_ARGS)

test-long: setup  ## what the default suite leaves out for its time (some 6 minutes on 2 cores)
	@TJ_TEST_WIDE=1 $(PY) -m pytest -q -n auto --dist loadgroup -m "long or wide" $(PYTEST_ARGS)

test-random: setup  ## the random tests with another seed (printed; again: SEED=<it>), for whoever looks for new bugs
	@seed="$(SEED)"; [ -n "$$seed" ] || seed="$$($(PY) -c 'import random; print(random.SystemRandom().randrange(10**9))')"; \
	echo "again: make test-random SEED=$$seed"; \
	TJ_TEST_SEED="$$seed" $(PY) -m pytest -q -n auto --dist loadgroup --hypothesis-profile=default --hypothesis-seed="$$seed" \
	  $$(grep -rlE "the_seed|TJ_TEST_SEED|^from hypothesis" --include='test_*.py' tests localcluster/localcluster_tests) tests/scenarios $(PYTEST_ARGS)

sim-all: setup  ## the simulation's whole figures, row by row (SHARE=0.1: a tenth of them; ROW=1: one row)
	@$(PY) -m tests.simulation all $(if $(SHARE),--share $(SHARE)) $(if $(ROW),--row $(ROW))

sim: setup  ## one run of the simulation again, exactly, with its trace: SEED=<what a failure said>
	@$(PY) -m tests.simulation replay "$(if $(ROW),$(ROW)/)$(SEED)"

check: setup  ## ruff, mypy --strict, import contracts, generated files, pages
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check --quiet . || { echo "check: not formatted; run '.venv/bin/ruff format .'" >&2; exit 1; }
	@$(PY) -m mypy
	@.venv/bin/lint-imports
	@$(MAKE) --no-print-directory verify
	@$(PY) -m pytest -q tests/unit/test_pages.py tests/unit/test_contributing.py
	@$(PY) -m tests.support.wording
	@$(PY) -m tests.support.classnames
	@$(PY) -m tests.support.lengths

verify: setup  ## fail when a generated file differs from what `make generate` writes
	@$(PY) -m tjworker.api.generate --check
	@$(PY) -m tjworker.kube.rbac --check
	@$(PY) -m tjworker.settings --check
	@$(PY) -m tjworker.telemetry.metrics --check
	@$(PY) -m tests.peers --check

poison: setup  ## every attack on every key of Redis, on the memory store and on a real one (the fast suite plays a share)
	@TJ_TEST_POISON=all $(PY) -m pytest -q -n auto --dist loadgroup -m "long or not long" tests/poison $(PYTEST_ARGS)

control-plane: setup  ## build the real Kubernetes control plane from its Go modules, once (minutes)
	@$(PY) -m controlplane build $(if $(KUBERNETES),--kubernetes $(KUBERNETES))

# Lives mostly wait: LIVES processes play them, each on a control plane of its own, which takes an eighth of a core and some 1.5 GB. Then
# the roles are held against what all of them have asked for.
LIVES ?= 4
test-real: control-plane  ## the tests that need the real control plane (some 9 minutes on 2 cores, after the build)
	@rm -rf build/asked
	@TJ_REAL=1 TJ_REAL_ASKED=build/asked TJ_REAL_KUBERNETES="$(KUBERNETES)" $(PY) -m pytest -q -n $(LIVES) --dist loadgroup --ignore tests/e2e/control_plane/test_rights.py tests/e2e/control_plane $(PYTEST_ARGS)
	@TJ_REAL=1 TJ_REAL_ASKED=build/asked $(PY) -m pytest -q tests/e2e/control_plane/test_rights.py

# A folder of its own: the client must be the one that its users have, with what it wants.
test-sdk: setup  ## Kubeflow's own Python clients against a local stack (4 minutes; TJ_SDK_E2E=.../sdk/python/test/e2e: its own e2e tests, too)
	@for sdk in sdk sdk-trainer; do \
	  if [ "$$(cat .venv/$$sdk/.stamp 2>/dev/null)" != "$$(cksum < requirements/$$sdk.txt)" ]; then \
	    rm -rf .venv/$$sdk && $(PY) -m venv .venv/$$sdk && \
	    .venv/$$sdk/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/$$sdk.txt && \
	    cksum < requirements/$$sdk.txt > .venv/$$sdk/.stamp || exit 1; \
	  fi; \
	done
	@TJ_SDK=1 $(PY) -m pytest -q tests/sdk $(PYTEST_ARGS)

test-compose: setup  ## docker-compose.yml on a real container engine, images included (about 9 minutes; skipped without an engine; IMAGE_PYTHON=3.14: with that Python)
	@TJ_COMPOSE=1 TJ_TEST_PYTHON="$(IMAGE_PYTHON)" $(PY) -m pytest -q -s tests/compose $(PYTEST_ARGS)

test-cluster: control-plane  ## real kubelets beside the real control plane, and the installation on them (root on Linux, else skipped; the installation needs a container engine, too)
	@$(PY) -m controlplane build --kubelet
	@TJ_CLUSTER=1 $(PY) -m pytest -q -rs tests/cluster $(PYTEST_ARGS)

chart: setup  ## the Helm chart, built from k8s/: build/chart/trainingjob-operator-VERSION.tgz
	@$(PY) -m charts

release: sbom  ## wheels, chart, manifests, bills of materials and their sums: build/release (IMAGE=registry/operator@sha256:...)
	@$(PY) -m releasing --image "$(IMAGE)" --redis-image "$(REDIS_IMAGE)"

# A folder of its own: nothing else needs a site generator.
site: setup  ## the documentation as a web site that needs no server: build/site/VERSION/index.html
	@if [ "$$(cat .venv/site/.stamp 2>/dev/null)" != "$$(cksum < requirements/site.txt)" ]; then \
	  rm -rf .venv/site && $(PY) -m pip install --quiet --disable-pip-version-check --require-hashes --target .venv/site -r requirements/site.txt && \
	  cksum < requirements/site.txt > .venv/site/.stamp; \
	fi
	@$(PY) -m docsite

test-chart: control-plane  ## what Helm installs, beside what kustomize installs, and a release on the real API server (2 minutes, after the build)
	@$(PY) -m controlplane build --helm
	@TJ_CHART=1 $(PY) -m pytest -q tests/chart $(PYTEST_ARGS)

test-alerts: setup  ## each alert fires and clears in a real Prometheus, its fault really caused (about 15 minutes; skipped without Prometheus)
	@$(PY) -m tests.alerts.prometheus
	@TJ_ALERTS=1 $(PY) -m pytest -q -s -rs tests/alerts $(PYTEST_ARGS)

test-browser: setup  ## the page in a real headless Chromium (some 3 minutes; skipped without Chromium)
	@$(PY) -m pytest -q -rs -m long tests/browser $(PYTEST_ARGS)

screenshots: setup  ## pictures of the page at PAGE=http://127.0.0.1:8088, of a `make up` in another terminal, into build/screenshots
	@$(PY) -m tests.browser "$${PAGE:-http://127.0.0.1:8088}" build/screenshots

# A folder of its own: some gigabytes that nothing else needs.
test-frameworks: setup  ## train with the real frameworks on a local stack (the first time 3.5 GB; then about 10 minutes)
	@key="$$(cat requirements/frameworks.txt requirements/frameworks-debian.txt | cksum)"; \
	if [ "$$(cat .venv/frameworks/.stamp 2>/dev/null)" != "$$key" ]; then \
	  rm -rf .venv/frameworks && $(PY) -m venv .venv/frameworks && \
	  .venv/frameworks/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps --only-binary :all: -r requirements/frameworks.txt && \
	  $(PY) -m tests.frameworks.debian && printf '%s' "$$key" > .venv/frameworks/.stamp; \
	fi
	@TJ_FRAMEWORKS=1 $(PY) -m pytest -q tests/frameworks $(PYTEST_ARGS)

bench: control-plane  ## the operator beside a bare client on the real control plane (about 12 minutes; BENCH_ARGS="--jobs 100")
	@$(PY) -m benchmarks $(BENCH_ARGS)

peer: setup  ## build the training-operator that `python -m benchmarks --peer` runs beside ours, once (minutes); prints its path
	@$(PY) -m benchmarks.peer

mutants: setup  ## mutants of everything pure and of the executor: how many does a test notice? (a sample of 400; MUTANTS="tjworker/reconcile/core.py")
	@if [ "$$(cat .venv/mutation/.stamp 2>/dev/null)" != "$$(cksum < requirements/mutation.txt)" ]; then \
	  rm -rf .venv/mutation && $(PY) -m pip install --quiet --disable-pip-version-check --require-hashes --target .venv/mutation -r requirements/mutation.txt && \
	  cksum < requirements/mutation.txt > .venv/mutation/.stamp; \
	fi
	@$(PY) -m tests.mutation.mutants $(MUTANTS)

chaos: control-plane  ## real processes killed, stopped, starved, cut off: the same ends (about 100 minutes; SHARE=0.1 for a tenth)
	@$(PY) -m tests.chaos --share $(SHARE) $(CHAOS_ARGS)

bugs: setup  ## put each known bug into a copy of the tree and run the whole fast suite: who notices (SHARE=1/4: a part; BUGS=name or a folder)
	@$(PY) -m tests.mutation --share $(SHARE) $(BUGS)

AUDIT := PYTHONPATH=.venv/audit $(PY)
.PHONY: sbom audit audit-tools
audit-tools: setup
	@if [ "$$(cat .venv/audit/.stamp 2>/dev/null)" != "$$(cksum < requirements/audit.txt)" ]; then \
	  rm -rf .venv/audit && $(PY) -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps --target .venv/audit -r requirements/audit.txt && \
	  cksum < requirements/audit.txt > .venv/audit/.stamp; \
	fi

sbom: audit-tools  ## what the images hold, package by package with hashes: build/sbom/*.cdx.json (CycloneDX); needs no network
	@mkdir -p build/sbom
	@for image in runtime history local; do \
	  $(AUDIT) -m cyclonedx_py requirements requirements/$$image.txt --of JSON --output-reproducible -o build/sbom/$$image.cdx.json; \
	done
	@$(PY) -m pytest -q tests/unit/test_sbom.py

audit: audit-tools  ## known vulnerabilities of what the images hold; asks a public database, and says so when it cannot
	@for image in runtime history local; do \
	  said="$$($(AUDIT) -m pip_audit -r requirements/$$image.txt --disable-pip --require-hashes --strict 2>&1)" && code=0 || code=$$?; \
	  case "$$code $$said" in \
	  0\ *) echo "audit: nothing is known against requirements/$$image.txt" ;; \
	  *"known vulnerabilit"*) printf '%s\n' "$$said"; exit 1 ;; \
	  *) printf '%s\n' "$$said" | tail -n 3 >&2; \
	    echo "audit: NOT DONE: the database of vulnerabilities could not be asked about requirements/$$image.txt; run it where PyPI can be reached" >&2; exit 2 ;; \
	  esac; \
	done

generate: setup  ## write the generated files (CRDs, API reference, RBAC, settings, differences from other operators)
	@$(PY) -m tjworker.api.generate
	@$(PY) -m tjworker.kube.rbac
	@$(PY) -m tjworker.settings
	@$(PY) -m tjworker.telemetry.metrics
	@$(PY) -m tests.peers

up: setup  ## the whole product on this machine, until Ctrl-C
	@$(PY) -m tjworker.cli up --state-dir "$(STATE)" || [ $$? -eq 130 ]  # Ctrl-C is how it ends

clean:  ## remove the environment, caches and the state of a local stack
	@if [ -e .tj/lock ] && [ -x $(PY) ] && ! $(PY) -c 'import fcntl; fcntl.flock(open(".tj/lock"), fcntl.LOCK_EX | fcntl.LOCK_NB)' 2>/dev/null; then \
	  echo "clean: a local stack runs in .tj, on this environment; stop it with Ctrl-C in its terminal, then try again" >&2; exit 1; \
	fi
	@rm -rf .venv .tj .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist *.egg-info */src/*.egg-info localcluster/build controlplane/build tjstack/build
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamp is written last and holds what the environment was made from. Without it the environment is half made (a killed
# set-up) and is made anew: what pip left behind cannot be trusted. In another folder too, as its scripts name the old one.
setup:
	@set -eu; \
	key="$$(cat requirements/runtime.txt requirements/dev.txt pyproject.toml localcluster/pyproject.toml controlplane/pyproject.toml tjstack/pyproject.toml | cksum) $$(pwd -P)"; \
	if [ "$$(cat .venv/.stamp 2>/dev/null)" = "$$key" ] && $(PY) -c '' 2>/dev/null; then exit 0; fi; \
	case "$$(cat .venv/.stamp 2>/dev/null)" in \
	*" $$(pwd -P)") $(PY) -m pip --version >/dev/null 2>&1 || rm -rf .venv ;; \
	*) if [ -e .venv ]; then echo "set-up: .venv is half made or of another folder; making it anew"; rm -rf .venv; fi ;; \
	esac; \
	if [ ! -e .venv ]; then \
	  found=""; \
	  for candidate in $(if $(PYTHON),"$(PYTHON)",python3.11 python3.12 python3.13 python3.14 python3 python); do \
	    if "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then found="$$candidate"; break; fi; \
	  done; \
	  if [ -z "$$found" ]; then \
	    echo "set-up: no Python 3.11 or newer $(if $(PYTHON),at PYTHON=$(PYTHON),on the PATH); install one, or name it: make PYTHON=/path/to/python3.11" >&2; exit 1; \
	  fi; \
	  if ! "$$found" -c 'import venv, ensurepip' 2>/dev/null; then \
	    echo "set-up: $$found lacks venv or pip (Debian, Ubuntu: apt-get install python3-venv); or choose another: make PYTHON=/path/to/python3.11" >&2; exit 1; \
	  fi; \
	  echo "set-up: making .venv with $$("$$found" --version) (once; a minute or two)"; \
	  "$$found" -m venv .venv; \
	fi; \
	rm -f .venv/.stamp; \
	export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore PIP_NO_INPUT=1; \
	packages="$$(grep -c '==' requirements/dev.txt)"; printf 'set-up: fetching %s packages ' "$$packages"; \
	{ PYTHONUNBUFFERED=1 $(PY) -m pip install --progress-bar off --require-hashes -r requirements/dev.txt || echo "pip has failed"; } | \
	while IFS= read -r line; do case "$$line" in \
	  Collecting\ *) printf . ;; \
	  Installing\ collected\ packages*) printf '\nset-up: installing them (a minute or so)\n' ;; \
	  "pip has failed") echo; exit 1 ;; \
	esac; done || { \
	  echo "set-up: pip could not install requirements/dev.txt (above: why). It needs a package index, this once: mend the network, or name" >&2; \
	  echo "a mirror (PIP_INDEX_URL=https://...), and run the same command again" >&2; exit 1; \
	}; \
	echo "set-up: installing the project"; \
	$(PY) -m pip install --quiet --no-deps --no-build-isolation -e localcluster -e controlplane -e tjstack -e .; \
	printf '%s' "$$key" > .venv/.stamp; \
	echo "set-up: .venv is ready"
