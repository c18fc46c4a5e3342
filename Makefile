# The commands of this repository; `make help` lists them. Everything real is in CMakePresets.json and tools/.
.DEFAULT_GOAL := help
export JOBS ?= $(shell nproc)
RELEASE := build/release
# Given to CMake when build/release is configured, which is done again when they change: make build CMAKE_OPTIONS=-DPANPIPE_SIM=OFF
export CMAKE_OPTIONS

.PHONY: help setup build demo test bench accuracy format clean
help:   ## list these commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

setup:  ## install what is missing (Debian packages, LibTorch in .venv); a second when nothing is
	@tools/setup

build:  ## release build, programs in build/release/bin/; PROGRAMS=1: no tests, no benchmarks
	@tools/setup $(if $(PROGRAMS),--programs)
	@tools/build $(if $(PROGRAMS),programs,all)

demo:   ## two training steps predicted, what contention costs, a small model run; builds what that needs
	@tools/demo

test:   ## every test that needs no GPU; says first how long that takes
	@tools/test

bench: build  ## Google Benchmark programs; JSON beside the table in build/bench/
	@tools/bench

accuracy: ## predict the published runs and write docs/accuracy.md
	@$(MAKE) --no-print-directory build PROGRAMS=1
	@tools/accuracy $(RELEASE)/bin/panpipe

format: ## rewrite the sources with clang-format
	@clang-format-14 -i $$(git ls-files '*.hpp' '*.cpp')

clean:  ## remove build/
	@rm -rf build
