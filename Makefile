# Two commands: `make bench` and `make test`. Both set up what they need, once.
#
#   make bench DEVICE=cuda     the same on NVIDIA GPUs (fbgemm-gpu instead of fbgemm-gpu-cpu, NCCL)
#   make setup PIP_FLAGS=...   extra flags for pip, such as another package index
#   make setup VENV=...        where the environment goes

DEVICE    ?= cpu
VENV      ?= .venv
PYTHON    ?= python3
PIP_FLAGS ?=
RUNS      ?= runs

BIN     := $(VENV)/bin
READY   := $(VENV)/.ready-$(DEVICE)
PIP     := $(BIN)/python -m pip install --quiet --disable-pip-version-check $(PIP_FLAGS) -c constraints.txt
FBGEMM  := $(if $(filter cuda,$(DEVICE)),fbgemm-gpu,fbgemm-gpu-cpu)
OTHER   := $(if $(filter cuda,$(DEVICE)),fbgemm-gpu-cpu,fbgemm-gpu)

.PHONY: setup bench bench-page bench-overhead microbench test test-oracle test-slow lint gate format schema clean

setup: $(READY)

# torchrec and recbole go in without their dependencies: torchrec asks for the distribution fbgemm-gpu by
# name, which on CPU is fbgemm-gpu-cpu; of recbole only the data files are wanted. Both FBGEMM
# distributions fill the same folder, so the other one is removed first. They go last: pip looks for unmet
# requirements of what is installed already.
$(READY): pyproject.toml constraints.txt Makefile
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or later is needed; name one with PYTHON=..."; exit 2; }
	@case "$(DEVICE)" in cpu|cuda) ;; *) echo "DEVICE=$(DEVICE): use cpu or cuda."; exit 2;; esac
	@echo "Setting up $(VENV) for $(DEVICE): a minute or two, once."
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	rm -f $(VENV)/.ready-*
	$(BIN)/python -m pip uninstall --quiet --yes $(OTHER) 2>/dev/null || true
	$(PIP) torch numpy $(FBGEMM) tensordict torchmetrics tqdm pyre-extensions iopath --editable '.[dev]'
	$(PIP) --no-deps torchrec recbole
	touch $@

# asv in the size that SPARSE2D_ASV_SIZE names (docs/asv.md), and the table of what it ran.
bench: setup
	SPARSE2D_ASV_OPTIONS="--device $(DEVICE) --runs $(abspath $(RUNS)) $$SPARSE2D_ASV_OPTIONS" $(BIN)/python -m benchmarks.asv_run

# The pages of all results, readable without a network.
bench-page: setup
	$(BIN)/python -m benchmarks.asv_page

# What the suite's own layers cost, as ratios (benchmarks/overhead.py says which).
bench-overhead: setup
	$(BIN)/python -m benchmarks.overhead
	$(BIN)/python -m benchmarks.virtual

# The small pieces by pytest-benchmark, kept in .benchmarks and compared with the last time.
microbench: setup
	$(BIN)/python -m pytest benchmarks/micro --benchmark-autosave --benchmark-compare

# Two files of tests at a time: many wait for ranks to start, or to be given up. In the order of their names, which has
# the longest first; xdist's own, by number of tests, has them last, and one process idle then.
test: setup lint gate
	$(BIN)/python -m pytest -m 'not slow' -n 2 --dist loadfile --no-loadscope-reorder

# This project's own deterministic figures and a quick parity, against expected values. RENEW=--renew writes them.
gate: setup
	$(BIN)/sparse2d gate --plan ci/self.toml --expected ci/expected.json --runs $(RUNS) $(RENEW)

# The whole matrix of sharding types, layouts, optimizers and sync schedules against the oracle.
test-oracle: setup
	$(BIN)/python -m pytest tests/reference_impl/test_oracle.py

test-slow: setup
	$(PIP) --editable '.[dev,trace]'
	$(BIN)/python -m pytest -m slow

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

schema: setup
	$(BIN)/python -m suite.schema

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
