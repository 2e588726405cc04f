# Every target works in a fresh clone: install/prepare.sh makes the environment first.

.PHONY: help demo test agent-run picture conformance interop record-interop test-one-half test-other-half test-parts test-interop test-chromium test-tools test-firefox test-machine test-security bench bench-peers check format clean

help:
	@echo "make demo    a page's tools, called by an MCP client, from end to end"
	@echo "make test    everything: lint, types, tests (real Chromium included)"
	@echo "make conformance  the protocol's own test suite, of both eras, over HTTP"
	@echo "make interop  beside the real native host of another product, which it fetches, 180 MB"
	@echo "make agent-run  two clients at once, sixty steps through a web site each, twenty times"
	@echo "make bench   what it costs, beside a bare copier and other products"
	@echo "make bench-peers  fetch the other products that it measures beside ours, 600 MB"
	@echo "make check   lint and types"
	@echo "make format  put the code into its form"
	@echo "make clean   remove what the others made"

demo:
	@install/prepare.sh run
	@.venv/bin/mcpb demo

# Browsers often wait, so two halves run beside each other; each line of output is whole.
test:
	@install/prepare.sh test
	@$(MAKE) --no-print-directory -j2 --output-sync=line test-one-half test-other-half
	@$(MAKE) --no-print-directory test-machine

# The files with a mark: to look into all of them takes ten seconds.
marked = $(shell grep -l "mark[.]$(1)" tests/test_*.py)

test-one-half:
	@$(MAKE) --no-print-directory check
	@$(MAKE) --no-print-directory test-firefox
	@$(MAKE) --no-print-directory test-chromium
	@$(MAKE) --no-print-directory test-interop

test-other-half:
	@$(MAKE) --no-print-directory test-tools
	@$(MAKE) --no-print-directory test-parts

test-chromium:
	@.venv/bin/pytest -q -m "chromium and not firefox and not machine" $(filter-out $(TOOLS),$(call marked,chromium))

# The browser's own tools and what they are made of, in a browser.
TOOLS = $(addprefix tests/test_,agent_run.py devtools_in_browser.py navigation.py site.py tabs_in_browser.py) \
	$(wildcard tests/test_in_page*.py tests/test_tool_*.py tests/e2e/security/test_*.py)
test-tools:
	@.venv/bin/pytest -q -m "chromium and not machine" $(TOOLS)

# The races of tests/e2e/security 40 times each; `make test` runs them three times.
test-security:
	@install/prepare.sh test
	@MCPB_SECURITY_ROUNDS=40 .venv/bin/pytest -q tests/e2e/security

test-firefox:
	@.venv/bin/pytest -q -m "firefox and not machine" $(call marked,firefox)

test-parts:
	@.venv/bin/pytest -q -m "not chromium and not firefox and not machine and not interop"

test-interop:
	@.venv/bin/pytest -q -m "interop and not chromium" $(call marked,interop)

test-machine:
	@.venv/bin/pytest -q -m machine $(call marked,machine)

# Once, it is a part of test-tools.
agent-run:
	@install/prepare.sh test
	@MCPB_AGENT_RUNS=20 .venv/bin/pytest -q tests/test_agent_run.py

# The picture in README.md.
picture:
	@install/prepare.sh test
	@cd tests && ../.venv/bin/python readme_picture.py

# A part of test-chromium as well.
conformance:
	@install/prepare.sh test
	@.venv/bin/pytest -q tests/test_conformance.py

interop:
	@install/prepare.sh test
	@$(MAKE) --no-print-directory test-interop

# What the real host says, for tests/test_dialect.py; after its version was raised.
record-interop:
	@install/prepare.sh test
	@MCPB_RECORD=yes .venv/bin/pytest -q tests/test_interop.py -k transcripts

bench:
	@install/prepare.sh test
	@.venv/bin/python -m benchmarks

# No scripts: some of these packages register themselves with browsers, or fetch their own.
bench-peers:
	@npm install --prefix benchmarks/peers --ignore-scripts --no-package-lock --no-audit --no-fund --loglevel=error

check:
	@install/prepare.sh test
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	node_modules/.bin/tsc
	shellcheck .ci/run install/*.sh

format:
	@install/prepare.sh test
	.venv/bin/ruff check --fix .
	.venv/bin/ruff format .

clean:
	rm -rf .venv node_modules tests/interop/node_modules benchmarks/peers/node_modules benchmarks/last.json .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
