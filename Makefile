# The only entry point. `make demo` and `make test` need python3 >= 3.11, cargo, gcc and make, and install the rest
# into ./.venv. See README.md.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUST := Cargo.toml Cargo.lock $(shell find crates -name '*.rs' -o -name '*.toml')

.PHONY: setup dev check test seeds e2e e2e-nvme e2e-full bench bench-engine bench-long demo docs docs-plots docs-data all clean

all: check test

$(VENV)/.ready: requirements.lock scripts/setup
	scripts/setup $(PYTHON) $(VENV)
	touch $@

setup: $(VENV)/.ready

$(VENV)/.built: $(VENV)/.ready pyproject.toml $(RUST)
	. $(BIN)/activate && maturin develop --release --locked --quiet
	touch $@

dev: $(VENV)/.built

check: dev
	cargo fmt --all --check
	cargo clippy --quiet --workspace --all-targets --locked -- -D warnings
	$(BIN)/ruff format --check --quiet python tests bench docs
	$(BIN)/ruff check --quiet python tests bench docs
	$(BIN)/mypy
	$(BIN)/stubtest flashgauge._core
	$(BIN)/pytest tests/test_tidy.py

test: dev
	scripts/test-tools
	cargo test --profile tested --quiet --locked
	$(BIN)/pytest

# Random simulated drives against the shadow model, for a minute; SEED=123 make seeds: that one case again.
seeds:
	SEEDS_S=60 FIRST_SEED=$${FIRST_SEED:-$$(date +%s)} cargo test --profile tested --quiet --locked --test simdrive_seeds -- --nocapture

e2e: dev
	$(BIN)/pytest -m slow

# Real drivers and tools on drives that QEMU emulates; 10 minutes at most.
e2e-nvme: dev
	scripts/test-machine
	timeout --kill-after=30 600 $(BIN)/pytest -m machine --durations=10 tests/machine

e2e-full: dev
	$(BIN)/pytest -m full -s tests/test_full_set.py

bench: dev
	$(BIN)/python bench/run.py
	$(BIN)/python bench/data.py

# Every figure of docs/engine.md; half an hour at full rate, nothing lost and nothing grown. Both as root.
bench-engine: dev
	$(BIN)/python bench/engine.py

bench-long: dev
	$(BIN)/python bench/engine.py long $${MINUTES:-30}

demo: dev
	$(BIN)/flashgauge run iops 'sim:sata-enterprise?capacity=24GB' --out runs/demo-$$(date +%Y%m%d-%H%M%S)

docs: dev
	$(BIN)/pytest tests/test_docs.py

# Plots and tables from the CSV files in docs/simulated-drive, and those again (an hour and more).
docs-plots: dev
	$(BIN)/python docs/plots.py
	$(BIN)/python docs/tables.py

docs-data: dev
	$(BIN)/python docs/data.py
	$(BIN)/python docs/plots.py
	$(BIN)/python docs/tables.py

clean:
	rm -rf target $(VENV)
