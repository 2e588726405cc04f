# Every target works in a fresh clone: install/prepare.sh makes the environment first.

.PHONY: help demo test docs interfaces agent-run picture screenshots icons conformance interop record-interop test-architecture test-unit test-integration test-installer test-contract test-e2e-chain test-e2e-tools test-e2e-extension test-e2e-firefox test-security-once test-machine test-security test-floods test-causes test-remote test-firstday soak soak-input soak-connections bench bench-tokens bench-peers check clients format clean

help:
	@echo "make demo    a page's tools, called by an MCP client, from end to end"
	@echo "make test    everything: lint, types, tests (real Chromium included)"
	@echo "make test-unit  the tests that start no process and no browser"
	@echo "make conformance  the protocol's own test suite, of both eras, over HTTP"
	@echo "make interop  beside the real native host of another product, which it fetches, 180 MB"
	@echo "make test-security  the attacks of tests/e2e/security, each race 40 times"
	@echo "make test-floods  hostile resources and prompts, with a million updates"
	@echo "make test-causes  each cause of a missing connection, in Chromium and Firefox"
	@echo "make test-remote  remote MCP servers and the page module, with all that is slow"
	@echo "make test-firstday  the first day on a bare Debian, with a real file chooser; needs root"
	@echo "make soak    the WebSocket proxy: a million random inputs, and connections of minutes"
	@echo "make agent-run  two clients at once, sixty steps through a web site each, twenty times"
	@echo "make clients  MCP clients of other projects, which it installs, 1.4 GB"
	@echo "make bench   what it costs, beside a bare copier and other products"
	@echo "make bench-tokens  tokens and calls of connecting, reading and tasks, beside other products"
	@echo "make bench-peers  fetch the other products that it measures beside ours, 600 MB"
	@echo "make screenshots  pictures of the popup, the extension's card, the status page and the toolbar"
	@echo "make check   lint and types"
	@echo "make docs    write docs/FILES.md and the browser tools' definitions"
	@echo "make interfaces  record the commands, keys, tools and messages, after an intended change"
	@echo "make format  put the code into its form"
	@echo "make clean   remove what the others made"

demo:
	@install/prepare.sh run
	@.venv/bin/mcpb demo

# Browsers often wait, so three groups run at once on two cores, the longest first; each line of output is whole.
# All groups run, also after one has failed. The last lines name what failed and how to repeat it.
groups = test-e2e-chain test-security-once test-e2e-tools test-integration test-installer test-e2e-firefox \
	test-unit test-e2e-extension test-contract check test-architecture
progress = .venv/bin/python tests/support/run_progress.py $(MCPB_TEST_RESULTS)
test: export MCPB_TEST_RESULTS = .test-results
test:
	@install/prepare.sh test
	@rm -rf $(MCPB_TEST_RESULTS) && mkdir $(MCPB_TEST_RESULTS) && date +%s >$(MCPB_TEST_RESULTS)/started
	@$(MAKE) --no-print-directory -j3 --output-sync=line $(groups:%=try-%) 2>&1 | $(progress)
	@$(MAKE) --no-print-directory try-test-machine 2>&1 | $(progress)
	@.venv/bin/python tests/support/run_summary.py $(MCPB_TEST_RESULTS)

# A group is noted while it runs, for the progress, and if it fails, for the summary.
try-%:
	@date +%s >$(MCPB_TEST_RESULTS)/running-$*
	@$(MAKE) --no-print-directory $* || echo $* >>$(MCPB_TEST_RESULTS)/failed
	@rm -f $(MCPB_TEST_RESULTS)/running-$*

# A group reports to the summary, if there is one.
pytest = .venv/bin/pytest -q $(if $(MCPB_TEST_RESULTS),--junitxml=$(MCPB_TEST_RESULTS)/$@.xml)

test-architecture:
	@$(pytest) tests/architecture

# Starts no process and no browser.
test-unit:
	@$(pytest) tests/unit

test-integration:
	@$(pytest) tests/integration --ignore=$(installer) --ignore=$(remote-fixtures) --deselect=$(remote-inspector) \
		--deselect=$(remote-benchmark)

# Remote servers with all that is slow there: the inspector, a quick run of the benchmark, and the tests of the
# servers that stand for them.
remote-fixtures = tests/integration/support/test_remote_servers.py
remote-inspector = tests/integration/cli/test_remote_command.py::test_the_inspector_sees_the_same_tools_through_bridge_and_serve
remote-benchmark = tests/integration/benchmarks/test_benchmarks.py::test_remote_tools_are_called_and_bridges_start_beside_a_server_that_never_answers
test-remote:
	@install/prepare.sh test
	@.venv/bin/pytest -q tests/integration/remote tests/integration/cli/test_remote_command.py \
		$(remote-fixtures) $(remote-benchmark) tests/e2e/page_module tests/e2e/chain/test_remote_secrets.py

# A group of its own, because it takes as long as half of the others.
installer = tests/integration/installer
test-installer:
	@$(pytest) $(installer)

# The mcp package, other clients and suites, the WebSocket proxy's specification, and recorded messages of Claude in
# Chrome's native host.
test-contract:
	@$(pytest) tests/contract --ignore=$(real-host)

# Pages and the whole chain, in a real Chromium.
test-e2e-chain:
	@$(pytest) tests/e2e/chain

test-e2e-tools:
	@$(pytest) tests/e2e/browser_tools

# The extension, the page module, HTTP, the README, the WebSocket proxy, and the programs that drive browsers.
test-e2e-extension:
	@$(pytest) tests/e2e/drivers tests/e2e/extension tests/e2e/http tests/e2e/newcomer tests/e2e/page_module \
		tests/e2e/proxy

test-e2e-firefox:
	@$(pytest) tests/e2e/firefox

# Each race once: it takes 65 s less of processor time than three times.
test-security-once:
	@$(pytest) tests/e2e/security

# The same with each race 40 times.
test-security:
	@install/prepare.sh test
	@MCPB_SECURITY_ROUNDS=40 .venv/bin/pytest -q tests/e2e/security

# A page that sends a million updates; test-e2e-chain has a tenth of them.
test-floods:
	@install/prepare.sh test
	@MCPB_FLOOD=1000000 .venv/bin/pytest -q tests/e2e/chain/test_hostile_primitives.py

# All rows of the table in docs/TROUBLESHOOTING.md; in test-e2e-firefox Firefox meets three of them.
test-causes:
	@install/prepare.sh test
	@MCPB_ALL_CAUSES=yes .venv/bin/pytest -q tests/e2e/chain/test_causes.py tests/e2e/firefox -k cause

# Changes for a moment what all users of the machine have, so nothing else runs meanwhile.
test-machine:
	@$(pytest) tests/e2e/machine

# A bare Debian, a shell, a file chooser and Claude Code, as README.md says. Needs root and some minutes.
test-firstday:
	@install/prepare.sh test
	@PYTHONPATH=.:tests/support .venv/bin/python tests/support/first_day.py

# The WebSocket proxy's tests that have a long variant: a million random inputs each, a browser that is left alone
# for longer, an extension that reconnects for a minute. Two groups at once, on two cores.
soak: export MCPB_SOAK = yes
soak:
	@install/prepare.sh test
	@$(MAKE) --no-print-directory -j2 --output-sync=line soak-input soak-connections

soak-input:
	@.venv/bin/pytest -q --timeout=3600 -k random tests/unit/serving/test_websocket_protocol.py \
		tests/unit/proxy/test_handshakes.py tests/integration/http/test_websocket.py

soak-connections:
	@.venv/bin/pytest -q tests/contract/proxy/test_blueprint.py tests/e2e/proxy/test_reconnect.py

# Once, it is a part of test-e2e-chain.
agent-run:
	@install/prepare.sh test
	@MCPB_AGENT_RUNS=20 .venv/bin/pytest -q tests/e2e/chain/test_agent_run.py

# docs/FILES.md, from the first lines of the source files, and the browser tools' definitions.
docs:
	@install/prepare.sh test
	@.venv/bin/python tests/architecture/generated_files.py

# tests/data/interfaces.json, after an intended change of a command, a key, a tool or a message.
interfaces:
	@install/prepare.sh test
	@cd tests/support && ../../.venv/bin/python interfaces.py >../data/interfaces.new && mv ../data/interfaces.new ../data/interfaces.json

# The picture in README.md.
picture:
	@install/prepare.sh test
	@cd tests/support && ../../.venv/bin/python readme_picture.py

# All that a user sees of mcpb in a browser, for a look before a release.
screenshots:
	@install/prepare.sh test
	@cd tests/support && ../../.venv/bin/python screenshots.py

# extension/icons, after a change of their script.
icons:
	@install/prepare.sh test
	@cd tests/support && ../../.venv/bin/python extension_icons.py

# A part of test-contract as well.
conformance:
	@install/prepare.sh test
	@.venv/bin/pytest -q tests/contract/clients/test_conformance.py

# The real native host of Claude in Chrome, in its own target because it is fetched and runs for minutes.
real-host = tests/contract/claude_in_chrome/test_interop.py
interop:
	@install/prepare.sh test
	@$(pytest) tests/contract/claude_in_chrome

# What the real host says, for tests/contract/claude_in_chrome/test_dialect.py; after its version was raised.
record-interop:
	@install/prepare.sh test
	@MCPB_RECORD=yes .venv/bin/pytest -q tests/contract/claude_in_chrome/test_interop.py -k transcripts

# Clients of docs/CLIENTS.md that npm and PyPI carry, with a real Chromium.
clients:
	@install/prepare.sh test
	@cd tests/support && ../../.venv/bin/python foreign_clients.py
	@$(pytest) tests/e2e/clients

bench:
	@install/prepare.sh test
	@.venv/bin/python -m benchmarks

bench-tokens:
	@install/prepare.sh test
	@.venv/bin/python -m benchmarks --only tokens

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
	rm -rf .venv node_modules tests/data/interop/node_modules tests/data/clients/node_modules tests/data/clients/env-* benchmarks/peers/node_modules benchmarks/last.json .test-results .screenshots .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
