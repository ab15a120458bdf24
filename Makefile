# The only entry point. `make demo` and `make test` need python3 >= 3.11, cargo, gcc and make, and install the rest
# into ./.venv. See README.md.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUST := Cargo.toml Cargo.lock $(shell find crates -name '*.rs' -o -name '*.toml')

.PHONY: setup dev check test e2e e2e-full bench demo docs all clean

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
	$(BIN)/ruff format --check --quiet python tests bench
	$(BIN)/ruff check --quiet python tests bench
	$(BIN)/mypy
	$(BIN)/stubtest flashgauge._core
	$(BIN)/pytest tests/test_tidy.py

test: dev
	scripts/test-tools
	cargo test --release --quiet --locked
	$(BIN)/pytest

e2e: dev
	$(BIN)/pytest -m slow

e2e-full: dev
	$(BIN)/pytest -m full -s tests/test_full_set.py

bench: dev
	$(BIN)/python bench/run.py

demo: dev
	$(BIN)/flashgauge run iops 'sim:sata-enterprise?capacity=24GB' --out runs/demo-$$(date +%Y%m%d-%H%M%S)

docs: dev
	$(BIN)/pytest tests/test_docs.py

clean:
	rm -rf target $(VENV)
