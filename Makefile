# The commands of this repository; `make help` lists them. Everything real is in CMakePresets.json and tools/.
.DEFAULT_GOAL := help
JOBS ?= $(shell nproc)
RELEASE := build/release

.PHONY: help setup build demo test bench accuracy check-format format clean
help:   ## list these commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

setup:  ## install what is missing (Debian packages, LibTorch in .venv); a second when nothing is
	@tools/setup

build: setup  ## release build; programs in build/release/bin/
	@[ -f $(RELEASE)/build.ninja ] && [ -z "$(PANPIPE_LIBTORCH)" ] || cmake --preset release
	@cmake --build --preset release -j $(JOBS)

demo: build  ## the main job: predict two training steps, show what contention costs
	@tools/demo

test: build  ## every test that needs no GPU
	@# Tests of deadlines and killed processes share the machine with others: one that fails is run once more, and both show.
	@ctest --preset release -LE gpu -j $(JOBS) --repeat until-pass:2

bench: build  ## Google Benchmark programs; JSON beside the table in build/bench/
	@tools/bench

accuracy: build  ## predict the published runs and write docs/accuracy.md
	@tools/accuracy $(RELEASE)/bin/panpipe

format: ## rewrite the sources with clang-format
	@clang-format-14 -i $$(git ls-files '*.hpp' '*.cpp')

clean:  ## remove build/
	@rm -rf build
