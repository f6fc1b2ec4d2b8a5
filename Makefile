# Bootstrap only: builds the environment from uv.lock, then calls Snakemake or pytest.
# Nothing global is touched: uv lives in .uv/, the packages in .venv/.

PYTHON ?= python3
UV_VERSION := 0.13.9
UV := .uv/bin/uv
BIN := .venv/bin
export UV_PYTHON_DOWNLOADS := never
export UV_PYTHON := $(PYTHON)
export UV_PROJECT_ENVIRONMENT := .venv
# Every job starts Python: compiled once, each starts two seconds sooner.
export UV_COMPILE_BYTECODE := 1
# Of the project's own modules, too, where Python itself is told to keep none (PYTHONDONTWRITEBYTECODE).
COMPILE = $(BIN)/python -m compileall -q src
export PATH := $(CURDIR)/.venv/bin:$(PATH)

# Said after a failure if Snakemake's lock is there: of a run that is active, or of one that was killed (kill -9).
LOCKED = { status=$$?; [ -z "$$(ls .snakemake/locks 2> /dev/null)" ] || \
  echo "this folder has Snakemake's lock: another run is active, or was killed (then: make unlock)"; exit $$status; }

.PHONY: all unlock results smoke measured check lint types test docs benchmark container clean
all: results

results: .venv/.run-stamp
	@$(BIN)/snakemake || $(LOCKED)
	@echo "claims:   $(BIN)/fabricast claims prints them all"
	@echo "database: $(CURDIR)/results/fabricast.duckdb"
	@echo "report:   $(CURDIR)/reports/report.html"

smoke: .venv/.run-stamp
	@$(BIN)/snakemake --configfile config/studies/smoke.yaml || $(LOCKED)
	@echo "database: $(CURDIR)/results/smoke/fabricast.duckdb"
	@echo "report:   $(CURDIR)/reports/smoke/report.html"

# Snakemake's report with the provenance of every figure, on demand: make reports/report.zip
reports/report.zip: reports/report.html
	@echo "making $@, Snakemake's report"
	@$(BIN)/snakemake --report $@ > /dev/null 2>&1 || $(BIN)/snakemake --report $@

# What this machine can measure itself: MPI messages, and a GPU where there is one; installs the optional groups.
measured: .venv/.test-stamp
	@$(UV) sync --locked --extra workflow --extra measure $(if $(shell command -v nvidia-smi),--extra cuda)
	$(BIN)/snakemake measured || $(LOCKED)

unlock: .venv/.run-stamp
	$(BIN)/snakemake --unlock

# Two processes that take each other's waiting tests; those of the workflow, the longest, first.
test: .venv/.test-stamp
	$(BIN)/python -m pytest -n 2 --dist worksteal tests/workflow tests/report tests/unit tests/fuzz src

# Before each commit: static checks and the quick tests, in less than two minutes once kernels are compiled.
check: lint types
	$(BIN)/python -m pytest -q -n 2 --dist worksteal -m "not slow" tests/unit

lint: .venv/.test-stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/snakefmt --check Snakefile workflow

types: .venv/.test-stamp
	$(BIN)/mypy

# The documentation site; opens from disk. Figures and verdicts are those of the last default study.
docs: .venv/.docs-stamp
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "site: $(CURDIR)/docs/_build/html/index.html"

# The image of profiles/apptainer; needs root, apptainer (scripts/install-apptainer.sh), mmdebstrap, squashfs-tools.
container:
	@containers/build.sh

benchmark: .venv/.test-stamp
	$(BIN)/python -m benchmarks

$(UV):
	@case "$$PWD" in *[[:space:]\'\"\$$\;\*\(\)\&\\\{\}\`\|\<\>\?]*) \
	  echo "this path has a blank or a character of shells, which Snakemake does not quote: move the folder"; exit 1;; esac
	@echo "making .uv/ with uv $(UV_VERSION)"
	@$(PYTHON) -m venv .uv || { echo "python venv support is missing; on Debian: apt-get install python3-venv"; rm -rf .uv; exit 1; }
	@.uv/bin/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)

.venv/.run-stamp: uv.lock pyproject.toml | $(UV)
	@echo "making .venv/ from uv.lock"
	@$(UV) sync --locked --no-dev --inexact --extra workflow
	@$(COMPILE)
	@touch $@

# Documentation and workflow only: no package for GPUs or MPI.
.venv/.docs-stamp: uv.lock pyproject.toml | $(UV)
	@echo "making .venv/ from uv.lock, with what the documentation needs"
	@$(UV) sync --locked --no-dev --inexact --extra workflow --extra docs
	@$(COMPILE)
	@touch $@ .venv/.run-stamp

.venv/.test-stamp: uv.lock pyproject.toml | $(UV)
	@echo "making .venv/ from uv.lock, with what tests need"
	@$(UV) sync --locked --extra workflow --extra docs
	@$(COMPILE)
	@touch $@ .venv/.run-stamp .venv/.docs-stamp

clean:
	rm -rf .snakemake results/pcie results/breakdown results/gpucentric results/percs results/collectives results/clusters results/maxrate/*.parquet \
	  results/tables results/archive results/smoke results/paper reports/smoke reports/paper logs results/fabricast.duckdb results/run_config.yaml ro-crate-metadata.json \
	  reports/figures reports/report.html reports/report.zip docs/_build docs/_generated docs/_static/figures \
  docs/reference/generated
