# Every target works in a fresh clone: install/prepare.sh makes the environment first.

.PHONY: help demo test docs agent-run picture conformance interop record-interop test-lane-one test-lane-two test-parts test-interop test-chromium test-tools test-attacks test-firefox test-machine test-security bench bench-peers check format clean

help:
	@echo "make demo    a page's tools, called by an MCP client, from end to end"
	@echo "make test    everything: lint, types, tests (real Chromium included)"
	@echo "make conformance  the protocol's own test suite, of both eras, over HTTP"
	@echo "make interop  beside the real native host of another product, which it fetches, 180 MB"
	@echo "make test-security  the attacks of tests/e2e/security, each race 40 times"
	@echo "make agent-run  two clients at once, sixty steps through a web site each, twenty times"
	@echo "make bench   what it costs, beside a bare copier and other products"
	@echo "make bench-peers  fetch the other products that it measures beside ours, 600 MB"
	@echo "make check   lint and types"
	@echo "make docs    write docs/FILES.md"
	@echo "make format  put the code into its form"
	@echo "make clean   remove what the others made"

demo:
	@install/prepare.sh run
	@.venv/bin/mcpb demo

# Browsers often wait, so two lanes run beside each other on two cores; each line of output is whole.
# All groups run, also after one has failed. The last lines name what failed and how to repeat it.
test: export MCPB_TEST_RESULTS = .test-results
test:
	@install/prepare.sh test
	@rm -rf $(MCPB_TEST_RESULTS) && mkdir $(MCPB_TEST_RESULTS) && date +%s >$(MCPB_TEST_RESULTS)/started
	@$(MAKE) --no-print-directory -j2 --output-sync=line test-lane-one test-lane-two
	+@$(call run-groups,test-machine)
	@.venv/bin/python tests/support/run_summary.py $(MCPB_TEST_RESULTS)

# Groups one after the other; one that fails is noted for the summary.
run-groups = $(foreach group,$(1),$(MAKE) --no-print-directory $(group) || echo $(group) >>$(MCPB_TEST_RESULTS)/failed;)

# A group reports to the summary, if there is one.
pytest = .venv/bin/pytest -q $(if $(MCPB_TEST_RESULTS),--junitxml=$(MCPB_TEST_RESULTS)/$@.xml)

# The files with a mark: to look into all of them takes ten seconds.
marked = $(shell grep -rl --include='test_*.py' "mark[.]$(1)" tests | sort)

test-lane-one:
	+@$(call run-groups,check test-firefox test-chromium test-attacks)

test-lane-two:
	+@$(call run-groups,test-tools test-parts test-interop)

test-chromium:
	@$(pytest) -m "chromium and not firefox and not machine" \
		$(filter-out $(TOOLS),$(call marked,chromium))

# The browser's own tools and what they are made of, in a browser.
TOOLS = $(addprefix tests/test_,agent_run.py devtools_in_browser.py navigation.py site.py tabs_in_browser.py) \
	$(wildcard tests/test_in_page*.py tests/test_tool_*.py)
test-tools:
	@$(pytest) -m "chromium and not machine" $(TOOLS)

# Each race three times.
test-attacks:
	@$(pytest) -m "not machine" tests/e2e/security

# The same with each race 40 times.
test-security:
	@install/prepare.sh test
	@MCPB_SECURITY_ROUNDS=40 .venv/bin/pytest -q tests/e2e/security

test-firefox:
	@$(pytest) -m "firefox and not machine" $(call marked,firefox)

test-parts:
	@$(pytest) -m "not chromium and not firefox and not machine and not interop"

test-interop:
	@$(pytest) -m "interop and not chromium" $(call marked,interop)

test-machine:
	@$(pytest) -m machine $(call marked,machine)

# Once, it is a part of test-tools.
agent-run:
	@install/prepare.sh test
	@MCPB_AGENT_RUNS=20 .venv/bin/pytest -q tests/test_agent_run.py

# docs/FILES.md, from the first lines of the source files.
docs:
	@install/prepare.sh test
	@.venv/bin/python tests/architecture/files_page.py

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
	shellcheck .ci/run .ci/check-commits install/*.sh

format:
	@install/prepare.sh test
	.venv/bin/ruff check --fix .
	.venv/bin/ruff format .

clean:
	rm -rf .venv node_modules tests/interop/node_modules benchmarks/peers/node_modules benchmarks/last.json .test-results .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
