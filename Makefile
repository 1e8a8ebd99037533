# Every command sets up what it needs in a fresh clone. docs/development.md explains them and says how long they take.
PYTHON ?=
ARGS ?=
# The environment; continuous integration names one that outlives the clone (.ci/run).
VENV := $(or $(TRIPONT_VENV),.venv)
VENV_WHEEL := $(or $(TRIPONT_VENV_WHEEL),.venv-wheel)
RUN := $(VENV)/bin/python
# One test more at once than there are cores, up to four (ARGS="-n 0 ..." for one after another, as a debugger wants it).
PYTEST := $(RUN) -m pytest -n auto --maxprocesses 4 --dist worksteal
# The folders whose tests are about TensorFlow or PyTorch.
FRAMEWORK_TESTS := $(addprefix frontends/,tensorflow torch_xla torchax) $(addprefix interop/,frameworks test_interop.py) \
  kernels/frameworks nextpluggable
WITHOUT_FRAMEWORKS := $(addprefix --ignore=tests/,$(FRAMEWORK_TESTS))
# All tests that the environment's Python can run: cmake/develop.py says which frameworks have no packages for it.
ALL_TESTS = tests $(shell PYTHONPATH=cmake $(RUN) -c 'import sys, develop; sys.exit(sys.version_info < develop.BEFORE["torch"])' && \
  echo $(WITHOUT_FRAMEWORKS))
# The compiler up to its artifact, without LLVM: reading, passes, fusion, memory, the evaluator, simulated execution. And the
# scripts of the build, but for those that make an environment and configure a build.
UNIT_TESTS := tests/cmake tests/core/compiler --ignore=tests/core/compiler/codegen --ignore=tests/core/compiler/targets \
  $(addprefix --ignore=tests/cmake/,test_make_environment.py test_wings.py) \
  $(addprefix --ignore=tests/core/compiler/,test_compile.py test_native.py test_worker.py xla ops/test_outside.py \
  passes/test_ragged_products.py $(addprefix passes/library/,test_attention_orders.py test_window_rows.py))

.PHONY: help environment dev tests frameworks build test test-nightly test-unit test-op test-fast test-upstream test-stablehlo test-packages test-suite fuzz scan fuzz-native fuzz-c-api soak test-asan test-ubsan test-tsan test-faults test-passes conformance test-cpus test-arm64 wheel test-wheel demo demo-bridge bench lint tidy format clean

help:
	@sed -n '/^How long/q; s/^| `\(make [^`]*\)` | \([^|;]*\).*/\1\t\2/p' docs/development.md | expand -t 16

# The environment, with a Python 3.11 or newer that really runs, and the dependencies of pyproject.toml in it.
environment:
	@PYTHON="$(PYTHON)" cmake/make_environment.sh "$(VENV)"

dev: environment
	@$(RUN) cmake/develop.py --dependencies

# The same, with what tests need besides: pytest and the SYCL runtime.
tests: environment
	@$(RUN) cmake/develop.py --tests

# The same, with TensorFlow and PyTorch/XLA: for the tests. TensorFlow's adapter is built where it was not.
frameworks: environment
	@$(RUN) cmake/develop.py --frameworks

build:
	@$(RUN) cmake/develop.py --build

test: frameworks
	$(PYTEST) --durations=10 $(or $(ARGS),$(ALL_TESTS))

# The same with the tests that take minutes and have hardly ever found anything.
test-nightly: frameworks
	$(PYTEST) --nightly --durations=10 $(or $(ARGS),$(ALL_TESTS))

# Nothing in them waits, so there are as many at once as there are cores.
test-unit: tests
	$(PYTEST) -n $(shell nproc) -q -m "not slow" $(UNIT_TESTS) $(ARGS)

# Every test of one op, OP=topk or top_k: those that name it in their name, their parameters or their text.
test-op: tests
	$(PYTEST) -q --op $(or $(OP),$(error name an op: make test-op OP=topk)) tests $(WITHOUT_FRAMEWORKS) $(ARGS)

# Every test function, with one in eight of its rows (tests/sampling.py).
test-fast: tests
	$(PYTEST) -m "not slow" --sample 8 tests $(WITHOUT_FRAMEWORKS) $(ARGS)

# All fuzzers in turn for a while (MINUTES=30): random programs, each from where the last run stopped, then programs with other
# numbers, which must be refused or keep to their own memory (SEED=1). Random programs run on the host, on SYCL's CPU and on the
# host with kernels that are caught outside of their arrays. What fails is kept in FUZZ_FOLDER.
FUZZ_FOLDER ?= build/fuzz
fuzz: tests
	nice $(RUN) -m tests.fuzz --minutes $(or $(MINUTES),5) --folder $(FUZZ_FOLDER) --jobs $(or $(JOBS),$(shell nproc)) $(ARGS)
	for target in sycl checked; do \
	  TRIPONT_CONFORMANCE_TARGET=$$target nice $(RUN) -m tests.fuzz --minutes $(or $(MINUTES),5) --only exact --only updates \
	    --only bounded --folder $(FUZZ_FOLDER)/$$target --jobs $(or $(JOBS),$(shell nproc)) $(ARGS) || exit 1; done
	TRIPONT_VERIFY= nice $(RUN) -m tests.integration.memory_safety.numbers --minutes $(or $(MINUTES),5) \
	  --seed $(or $(SEED),1000000) --count 1000000000 --folder $(FUZZ_FOLDER)/numbers

# Functions of TensorFlow, JAX and PyTorch on xpu beside the framework's CPU, each in a child process (ARGS="--only jax_updates --every 10").
scan: frameworks
	nice $(RUN) -m tests.scan $(ARGS)

# The fuzzers against faults that are put into a copy of the compiler: each must be found.
test-faults: tests
	$(RUN) -m pytest -q -n 0 -s tests/fuzz/test_faults.py $(ARGS)

# Every pass on data: random arguments through the evaluator before and after each pass, for the programs of the suites.
test-passes: tests
	nice $(RUN) -m tests.fuzz.passes $(ARGS)

# The runtime's tests with everything in C++ built with a sanitizer, in a folder of its own (cmake/sanitized.py).
test-asan: tests
	$(RUN) cmake/sanitized.py address $(ARGS)
test-ubsan: tests
	$(RUN) cmake/sanitized.py undefined $(ARGS)
test-tsan: tests
	$(RUN) cmake/sanitized.py thread $(ARGS)

# Readers of bytes that come from outside, under fuzzers with coverage, for a while (MINUTES=30 ARGS=artifact).
fuzz-native: tests
	$(RUN) -m tests.fuzzers --minutes $(or $(MINUTES),10) $(ARGS)

# Random sequences of calls of the PJRT C API, legal and illegal ones, for a while (MINUTES=30 ARGS="--seed 7").
fuzz-c-api: tests
	nice $(RUN) -m tests.fuzzers.c_api --minutes $(or $(MINUTES),5) $(ARGS)

# A service's day in MINUTES=30: training, serving, callbacks, compiles and clients in threads, while workers are killed, the
# disk is full, memory runs out, the process forks and signals arrive. Nothing may be wrong, hang or grow.
soak: tests
	nice $(RUN) -m tests.soak --minutes $(or $(MINUTES),30) $(ARGS)

# JAX's own tests of the installed version on xpu: those of a checkout (JAX_SOURCE), or of a clone. Hours; docs/jax-test-suite.md.
test-upstream: frameworks
	$(RUN) -m tests.upstream.jax_suite $(if $(JAX_SOURCE),--jax $(JAX_SOURCE)) $(ARGS)

# A sample of a framework's own tests (SUITE: tensorflow, torch or keras), from a checkout (SUITE_SOURCE, or a clone of its repository).
test-suite: frameworks
	$(RUN) -m tests.upstream.$(or $(SUITE),tensorflow)_suite $(if $(SUITE_SOURCE),--checkout $(SUITE_SOURCE)) $(ARGS)

# StableHLO's own tests, from a checkout (STABLEHLO_SOURCE, or a clone of its repository).
test-stablehlo: tests
	$(RUN) -m tests.upstream.stablehlo_suite $(if $(STABLEHLO_SOURCE),--stablehlo $(STABLEHLO_SOURCE)) $(ARGS)

# The own tests of flax, optax, Keras and other packages built on JAX on xpu, each in an environment of its own
# (ARGS="optax --minutes 10"; --checkout optax=~/optax for sources that are there).
test-packages: tests
	nice $(RUN) -m tests.upstream.package_suites $(ARGS)

# Every configuration of every op and of jax.numpy, and the table of what came out. TRIPONT_CONFORMANCE_TARGET: host (the default) or sycl.
conformance: tests
	TRIPONT_CONFORMANCE=full $(RUN) -m pytest -q $(or $(ARGS),tests/conformance tests/integration/test_numpy_functions.py tests/integration/test_scipy_functions.py)
	$(RUN) -m tests.conformance.coverage

# Conformance, products, linear algebra and JAX programs at each level of instructions that this machine has (ARGS: levels).
test-cpus: tests
	$(RUN) -m tests.cpus $(ARGS)

# The wheel for AArch64, cross-compiled, and what runs of it in QEMU's emulator, in build/arm64 (ARGS: words in the names of checks).
test-arm64: dev
	@$(RUN) cmake/arm64.py build/arm64
	$(RUN) -m tests.arm64 build/arm64 $(ARGS)

# One wheel for Python 3.11 to 3.15 and any x86-64 Linux with glibc 2.28 or newer, in build/portable-wheel, tried in clean environments.
wheel: environment
	@$(RUN) cmake/portable_wheel.py build/portable-wheel

# The wheel in a clean environment, as a user gets it, on Python 3.12 with the newest JAX where there is one; then installed
# beside each of WITH (tensorflow, torch), used, and uninstalled.
WITH ?= tensorflow torch
test-wheel: environment
	@cmake/test_wheel.sh "$(VENV)" "$(VENV_WHEEL)" $(WITH)

demo: dev
	$(RUN) examples/jax_digits/main.py $(ARGS)

# TensorFlow preprocesses, JAX trains, PyTorch evaluates, on the same buffers.
demo-bridge: frameworks
	$(RUN) examples/bridge/main.py $(ARGS)

bench: tests
	$(RUN) -m benchmarks $(ARGS)

lint: dev
	@$(RUN) cmake/develop.py --lint
	PATH="$(abspath $(VENV))/bin:$$PATH" pre-commit run --all-files $(ARGS)

# clang-tidy alone, with the checks of .clang-tidy (ARGS: files; JOBS=1).
tidy: dev
	@$(RUN) cmake/develop.py --lint
	PATH="$(abspath $(VENV))/bin:$$PATH" nice cmake/run_clang_tidy.sh $(ARGS)

format: dev
	@$(RUN) cmake/develop.py --lint
	$(VENV)/bin/ruff format . && $(VENV)/bin/ruff check --fix .
	git ls-files '*.cc' '*.h' | xargs -r $(VENV)/bin/clang-format -i

clean:
	rm -rf build
