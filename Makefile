# `make demo` and `make test` do all of their own set-up on a fresh Debian or Ubuntu machine.
PYTHON ?= python3
BIN := .venv/bin
DEMO := runs/demo
export PYTHONUNBUFFERED := 1

.PHONY: setup demo test lint types clean

setup:
	@$(PYTHON) packaging/bootstrap.py

# Fashion-MNIST, the five objectives of the supplement's Table 6, ten points of the grid each, early stopping with ASHA.
demo:
	@$(PYTHON) packaging/bootstrap.py fashion-mnist
	@$(BIN)/hyperspherical prepare fashion-mnist $(if $(SOURCE),--source $(SOURCE))
	@$(BIN)/hyperspherical tune vmf/fashion-mnist --epochs 4 --sweep $(DEMO) \
		--grid optimizer.learning_rate=0.01,0.05,0.1,0.5,1.0 optimizer.momentum=0.9,0.99
	@$(BIN)/hyperspherical report $(DEMO)

test: setup lint types
	$(BIN)/python -m pytest -q

lint:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types:
	$(BIN)/mypy

clean:
	rm -rf $(DEMO)
