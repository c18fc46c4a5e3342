# The commands of this repository; `make help` lists them. Everything real is in CMakePresets.json and tools/.
.DEFAULT_GOAL := help
export JOBS ?= $(shell nproc)
RELEASE := build/release
# Given to CMake when build/release is configured, which is done again when they change: make build CMAKE_OPTIONS=-DPANPIPE_SIM=OFF
export CMAKE_OPTIONS

.PHONY: help setup build demo test bench accuracy arena format tidy clean
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

arena: ## judge all schedules beside each other and write docs/arena-table.*; minutes
	@$(MAKE) --no-print-directory build PROGRAMS=1
	@tools/arena $(RELEASE)/bin/panpipe

format: ## rewrite the sources with clang-format and black
	@clang-format-14 -i $$(git ls-files '*.hpp' '*.cpp')
	@.venv/bin/python3 -m black -q $$(git ls-files '*.py')

tidy:   ## look for faults with clang-tidy (5 core minutes) and ruff
	@.venv/bin/python3 -m ruff check -q
	@tools/tidy

clean:  ## remove build/
	@rm -rf build

# Nothing but programs is built for these.
.PHONY: install uninstall deb
PREFIX ?= /usr/local
install: ## install programs, documents, man pages and completions under PREFIX (/usr/local)
	@$(MAKE) --no-print-directory build PROGRAMS=1
	@tools/install "$(PREFIX)"

uninstall: ## remove again what make install laid under PREFIX
	@tools/install --remove "$(PREFIX)"

deb:    ## Debian packages in build/deb/
	@for tool in dpkg-shlibdeps file; do command -v $$tool >/dev/null || { echo "deb: needs $$tool: apt-get install dpkg-dev file" >&2; exit 3; }; done
	@$(MAKE) --no-print-directory build PROGRAMS=1
	@# The time of the commit, so that a commit makes the same package twice.
	@cd $(RELEASE) && SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct 2>/dev/null)} cpack -G DEB -B "$(CURDIR)/build/deb"
	@rm -rf build/deb/_CPack_Packages

.PHONY: wheel
wheel: setup  ## a Python wheel for machines without compiler or apt, in build/wheel/; PYTHON=python3.13: for 3.12 and newer
	@$(or $(PYTHON),python3) tools/wheel

.PHONY: kit
kit: wheel  ## what measures a machine with a GPU in nine minutes, from the wheel: build/kit/panpipe-kit.tar.gz
	@tools/kit

.PHONY: web
web:    ## the page that predicts in a browser, in build/web/, with panpipe.html in one file; needs emscripten
	@tools/setup --web
	@tools/web

.PHONY: notebooks site
notebooks: ## run the notebooks and write them with their outputs into build/notebooks/
	@tools/setup --notebooks
	@$(MAKE) --no-print-directory build PROGRAMS=1
	@PATH="$(CURDIR)/.venv/bin:$$PATH" python3 tools/notebooks.py

site:   ## the documents as a site in build/site/, with MkDocs Material from PyPI; a warning is an error
	@$(MAKE) --no-print-directory build PROGRAMS=1
	@tools/site
