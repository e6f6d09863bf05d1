# nbmem: `make demo` shows it, `make test` proves it, `make lab` opens it. Each sets itself up.
#
# TORCH is what pip is given to install PyTorch, so it chooses the build too: add the --index-url
# that PyTorch's "Get started" page names for CPU, CUDA or ROCm.

TORCH ?= torch==2.13.0
TORCH_FLOOR ?= torch==2.10.0
PYTHON ?= python3
VENV ?= .venv
PY = $(VENV)/bin/python
EXTRAS ?= examples,lab
# Jupyter asks for this where the user is root, as in most containers.
ROOT_TOO = $$(test "$$(id -u)" != 0 || echo --allow-root)

.PHONY: demo lab test test-large test-floor setup setup-test bench screenshots format clean

demo: setup
	"$(PY)" examples/run_quickstart.py

lab: setup
	"$(VENV)/bin/jupyter" lab $(ROOT_TOO) "$$( [ -f demo-out/quickstart.ipynb ] && echo demo-out || echo examples )/quickstart.ipynb"

test: setup-test
	scripts/check "$(VENV)"

# Every scene of leaks once more among a million other objects: some ten minutes.
test-large: setup-test
	NBMEM_EVERY_SCENE=1 "$(PY)" -m pytest tests/shell/test_leaks_in_a_large_heap.py

# The lowest torch that is promised. Its wheels are large, so this stays out of `make test`.
test-floor:
	$(MAKE) test VENV=.venv-floor TORCH="$(TORCH_FLOOR)"

bench: setup-test
	"$(PY)" -m benchmarks

screenshots: setup-test
	"$(PY)" scripts/take_screenshots.py

format: setup-test
	"$(VENV)/bin/ruff" check --fix . && "$(VENV)/bin/ruff" format .

setup: $(VENV)/.installed-$(EXTRAS)

setup-test:
	$(MAKE) setup EXTRAS=test
	scripts/browser "$(PY)"

# Another TORCH than last time installs anew.
$(VENV)/.torch: FORCE
	@mkdir -p "$(VENV)"
	@printf '%s' "$(TORCH)" | cmp -s - "$@" || printf '%s' "$(TORCH)" > "$@"

FORCE:

# Torch goes first: with it there, nothing else asks for another build of it.
$(VENV)/.installed-%: pyproject.toml Makefile $(VENV)/.torch
	test -x "$(PY)" || "$(PYTHON)" -m venv "$(VENV)"
	"$(PY)" -m pip install --quiet $(TORCH)
	"$(PY)" -m pip install --quiet --editable ".[$*]"
	touch "$@"

clean:
	rm -rf "$(VENV)" .venv-floor build dist demo-out
