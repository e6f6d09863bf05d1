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
# The oldest JupyterLab and Notebook that are promised, in a small environment without torch.
OLD_LAB = .venv-lab42
# torch's CUDA build, on emulated cards: tests/emulated_cuda/README.md.
CUDA_TORCH ?= torch==2.11.0
CUDA_VENV ?= .venv-cuda
CUDA_TORCH_OLDEST ?= torch==2.10.0
CUDA_TORCH_NEWEST ?= torch==2.15.0
# Who works on the extension may have a link here; pip would write through it.
LABEXTENSION = share/jupyter/labextensions/nbmem
# Jupyter asks for this where the user is root, as in most containers.
ROOT_TOO = $$(test "$$(id -u)" != 0 || echo --allow-root)

.PHONY: demo lab test quick test-cuda test-cuda-large test-large test-floor setup setup-test bench screenshots labextension format clean

demo: setup
	"$(PY)" examples/run_quickstart.py

lab: setup
	"$(VENV)/bin/jupyter" lab $(ROOT_TOO) "$$( [ -f demo-out/quickstart.ipynb ] && echo demo-out || echo examples )/quickstart.ipynb"

test: setup-test
	scripts/check "$(VENV)"

# For the inner loop: formatter, linter, types, and what needs neither shell, kernel nor browser.
quick: setup-test
	scripts/check "$(VENV)" quick

# torch's own CUDA allocator on two emulated cards; needs g++ and 0.5 GB from the package index.
test-cuda: $(CUDA_VENV)/.installed
	scripts/check_cuda "$(CUDA_VENV)"

# All of tests/shell and of examples/ there besides.
test-cuda-large: $(CUDA_VENV)/.installed
	scripts/check_cuda "$(CUDA_VENV)" large

# Every scene of leaks once more among a million other objects (some ten minutes), more libraries, and
# the emulated cards with the oldest and the newest torch.
# PyPI's torchvision does not fit torch's CPU build, and those who find it import it.
test-large: setup-test
	NBMEM_EVERY_SCENE=1 "$(PY)" -m pytest tests/shell/test_leaks_in_a_large_heap.py
	NBMEM_EVERY_SCENE=1 "$(PY)" -m pytest tests/shell/test_leak_remedies.py
	$(MAKE) setup VENV=.venv-large EXTRAS=test-large
	.venv-large/bin/python -c "import torchvision" || .venv-large/bin/python -m pip uninstall --quiet --yes torchvision
	ls tests/libraries/more/test_*.py | xargs -P 2 -I '{}' scripts/check_group .venv-large/bin/python '{}'
	$(MAKE) test-cuda-large CUDA_TORCH="$(CUDA_TORCH_OLDEST)" CUDA_VENV=.venv-cuda-oldest
	$(MAKE) test-cuda-large CUDA_TORCH="$(CUDA_TORCH_NEWEST)" CUDA_VENV=.venv-cuda-newest

# The lowest torch that is promised. Its wheels are large, so this stays out of `make test`.
test-floor:
	$(MAKE) test VENV=.venv-floor TORCH="$(TORCH_FLOOR)"

bench: setup-test
	"$(PY)" -m benchmarks

screenshots: setup-test
	"$(PY)" scripts/take_screenshots.py
	"$(PY)" scripts/take_sidebar_screenshots.py

format: setup-test
	"$(VENV)/bin/ruff" check --fix . && "$(VENV)/bin/ruff" format .

setup: $(VENV)/.installed-$(EXTRAS)

setup-test:
	$(MAKE) -j 2 $(VENV)/.installed-test $(OLD_LAB)/.installed
	scripts/browser "$(PY)"

# Builds what JupyterLab and Notebook load into nbmem/labextension, and installs it. Needs node.
labextension: setup-test
	cd labextension && PATH="$(abspath $(VENV))/bin:$$PATH" jlpm install --immutable
	rm -rf nbmem/labextension
	cd labextension && PATH="$(abspath $(VENV))/bin:$$PATH" jlpm build:prod
	"$(PY)" scripts/labextension_hash.py --record
	$(MAKE) setup EXTRAS=test

# Another TORCH than last time installs anew.
$(VENV)/.torch: FORCE
	@mkdir -p "$(VENV)"
	@printf '%s' "$(TORCH)" | cmp -s - "$@" || printf '%s' "$(TORCH)" > "$@"

FORCE:

# Torch goes first and stays: nothing else may bring another build of it.
$(VENV)/.installed-%: pyproject.toml Makefile labextension/assets.json $(VENV)/.torch
	test -x "$(PY)" || "$(PYTHON)" -m venv "$(VENV)"
	"$(PY)" -m pip install --quiet $(TORCH)
	"$(PY)" -c "from importlib.metadata import version; print('torch==' + version('torch'))" > "$(VENV)/constraints"
	test ! -L "$(VENV)/$(LABEXTENSION)" || rm "$(VENV)/$(LABEXTENSION)"
	"$(PY)" -m pip install --quiet --constraint "$(VENV)/constraints" --editable ".[$*]"
	touch "$@"

# Its kernels run in the other environment, as they do on many servers.
$(OLD_LAB)/.installed: Makefile
	test -x "$(OLD_LAB)/bin/python" || "$(PYTHON)" -m venv "$(OLD_LAB)"
	"$(OLD_LAB)/bin/python" -m pip install --quiet "jupyterlab==4.2.*" "notebook==7.2.*" ipywidgets anywidget
	mkdir -p "$(OLD_LAB)/$(dir $(LABEXTENSION))"
	ln -sfn "$(CURDIR)/nbmem/labextension" "$(OLD_LAB)/$(LABEXTENSION)"
	touch "$@"

$(CUDA_VENV)/.installed: pyproject.toml $(wildcard tests/emulated_cuda/src/*) tests/emulated_cuda/setup
	PYTHON="$(PYTHON)" tests/emulated_cuda/setup "$(CUDA_VENV)" "$(CUDA_TORCH)"
	touch "$@"

clean:
	rm -rf "$(VENV)" .venv-floor .venv-large "$(CUDA_VENV)" .venv-cuda-oldest .venv-cuda-newest $(OLD_LAB) build dist demo-out
