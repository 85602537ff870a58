# Each target works as the only command on a machine with Python 3.11 (or newer) and make.
VENV := .venv
BIN := $(VENV)/bin
# Each worker begins with a half of the tests, and so makes most fixtures of modules alone.
PYTEST := -m pytest --quiet -n auto --dist=worksteal
ROUNDS := 20
HOURS := 1
# A world by seed: how long it lives, which seed is the first, and how many there are.
DAYS := 1
SEED := 1
SEEDS := 1
# Where `make install` installs, below DESTDIR, and the interpreter of the installed programs.
PREFIX := /usr/local
DESTDIR :=
PYTHON := /usr/bin/python3
# none, all (from wheels), missing: all if that interpreter lacks one
DEPENDENCIES := missing
# The date of manual pages and packages is that of the last commit.
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || stat -c %Y PKG-INFO 2>/dev/null || date +%s)
DATE = $(shell date --utc --date=@$(SOURCE_DATE_EPOCH) +%F)
# Tests of the first of two clusters with a real Ganeti.
FIRST := test_claims or test_failover or test_ganeti or test_policies or test_repairs or test_upgrade
# Each worker compiles the tests and plugins again where this keeps pytest from writing them down.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help venv test coverage test-long check lint test-lowest demo conformance oracle-3.1 test-debian-13 integration integration-first integration-second integration-3.1 simulate soak bench bench-full install uninstall archives deb deb-debian-13 test-deb release-check release man clean

help:
	@echo "make demo          the daemon and the iallocator at work on an embedded cluster"
	@echo "make test          linters, type checker and tests"
	@echo "make check         linters, type checker and unit tests without searches: for every change on the way"
	@echo "make coverage      the same, and the branches that the tests cover, 96 % at least"
	@echo "make test-long     more cases, then those tests that search at random, again and again, never the same (ROUNDS=20)"
	@echo "make lint          linters and type checker"
	@echo "make test-lowest   the tests that use dependencies, with the lowest supported versions of these"
	@echo "make conformance   upstream's own test cases"
	@echo "make oracle-3.1    the comparisons with the tools of Ganeti 3.1, from Debian 13 (as root; some minutes)"
	@echo "make test-debian-13  the tests in Debian 13, with its Python and its packages alone (as root)"
	@echo "make integration   tests with a real Ganeti 3.0, and upgraded to 3.1, all on this machine (as root; some minutes)"
	@echo "make integration-3.1  the same tests with Debian 13's Ganeti 3.1 (as root; some minutes)"
	@echo "make simulate      the daemon in a world whose time and chance come from a seed (DAYS=1 SEED=1 SEEDS=1)"
	@echo "make soak          an hour of decisions, claims and policies, whatever is disturbed meanwhile (HOURS=1)"
	@echo "make bench         speed, side by side with Debian's ganeti-htools (some minutes)"
	@echo "make bench-full    the same with the clusters on which those take minutes per answer"
	@echo "make install       programs, unit, configuration, manual pages and the rest below PREFIX=/usr/local (as root)"
	@echo "make uninstall     remove them; the configuration in /etc stays"
	@echo "make deb           packages for this machine's Debian, 12 or 13, in build/"
	@echo "make deb-debian-13  packages for Debian 13, built in a folder (as root)"
	@echo "make test-deb      the packages in build/, in a fresh Debian with its Ganeti (as root; some minutes)"
	@echo "make archives      the source archive and the wheel, in build/archives"
	@echo "make release-check every check there is, a line for each (as root; hours)"
	@echo "make release       check, build and tag the version that pyproject.toml names"
	@echo "make man           the manual pages, in build/man (with pandoc)"
	@echo "make venv          just create .venv, with all programs in .venv/bin"
	@echo "make clean         remove everything that was generated"

venv: $(VENV)/.installed
	@echo "the programs are in $(BIN)"

# Installed are the versions that packaging/lock chose, not the newest of today.
LOCKED := --require-hashes --requirement packaging/requirements
$(VENV)/.installed: setup.cfg pyproject.toml .ci/venv packaging/requirements.txt packaging/requirements-build.txt
	@.ci/venv $(VENV) $(LOCKED)-build.txt
	@.ci/venv $(VENV) $(LOCKED).txt
	@.ci/venv $(VENV) --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.developer: $(VENV)/.installed packaging/requirements-test.txt
	@.ci/venv $(VENV) $(LOCKED)-test.txt
	@touch $@

.venv-lowest/.developer: setup.cfg pyproject.toml .ci/venv constraints-lowest.txt
	@.ci/venv .venv-lowest --constraint constraints-lowest.txt --editable '.[test]'
	@touch $@

# The linters keep one processor busy, so the tests run meanwhile, and to their end even if the linters fail.
LINT_BESIDE = $(MAKE) --no-print-directory lint & linting=$$!;
LINTED = tested=$$?; wait $$linting || { echo "make lint fails: see above" >&2; exit 1; }; exit $$tested

test: $(VENV)/.developer
	@$(LINT_BESIDE) $(BIN)/python $(PYTEST); $(LINTED)

# The floor is just below the present coverage. Programs that tests start count as well, but those of tests that
# measuring disturbs: they may write no files, or count their processes.
UNMEASURED := --ignore=tests/daemon/test_unprivileged.py --deselect=tests/daemon/test_absence.py::test_executable_notices_that_the_daemon_ends_meanwhile
coverage: export COVERAGE_FILE := $(CURDIR)/.cache/coverage/data
coverage: lint
	@rm -rf .cache/coverage && install -d -m 1777 .cache/coverage  # programs of other users write there
	$(BIN)/coverage run $(PYTEST) $(UNMEASURED)
	@$(BIN)/coverage combine --quiet
	@$(BIN)/coverage report --format=total --fail-under=96

check: $(VENV)/.developer
	@$(LINT_BESIDE) $(BIN)/python $(PYTEST) -m "not long and not searching" tests/unit tests/transcripts; $(LINTED)

lint: $(VENV)/.developer
	@grep -rlIE '^#!/bin/(ba)?sh' --exclude='*.py' --exclude-dir=.git --exclude-dir='.venv*' --exclude-dir=.cache --exclude-dir=build . \
		| xargs $(BIN)/shellcheck completions/htoolsd.bash --severity=warning
	$(BIN)/ruff check --quiet
	$(BIN)/ruff format --check --quiet
	$(BIN)/mypy

test-long: $(VENV)/.developer
	$(BIN)/python $(PYTEST) -m long
	for round in $$(seq $(ROUNDS)); do \
		$(BIN)/python $(PYTEST) --hypothesis-profile=searched -m "searching and not integration" || exit; \
	done

# The engine uses numpy only, which the programs and the daemon show as well. Methods, claims, plans and policies use
# nothing that the others do not.
test-lowest: .venv-lowest/.developer
	.venv-lowest/bin/python $(PYTEST) $(addprefix tests/unit/,backends client luxi sources engine/rules) \
		$(addprefix tests/unit/daemon/,history http store follow metrics notify process socket sync) \
		$(patsubst %,tests/daemon/test_%.py,service ledger history http metrics) \
		-m "not long and not slow and not searching and not oracle"

demo: $(VENV)/.installed
	@$(BIN)/python demo/demo.py

conformance: $(VENV)/.installed
	@conformance/run --no-debian

oracle-3.1: $(VENV)/.developer
	@tests/oracle/debian-13 .cache/debian-13
	@ORACLE=$(CURDIR)/.cache/debian-13/bin $(BIN)/python $(PYTEST) tests/oracle
	@conformance/run --bin .cache/debian-13/bin

test-debian-13:
	@.ci/test-debian-13 .cache/debian-13/root

# Two clusters at the same time.
integration: $(VENV)/.developer
	@$(MAKE) --no-print-directory --jobs --output-sync integration-first integration-second

integration-first:
	@tests/integration/run -k "$(FIRST)"

integration-second:
	@tests/integration/run -k "not ($(FIRST))"

integration-3.1:
	@GANETI=3.1 $(MAKE) --no-print-directory integration

# docs/proof.md has what the world is.
simulate: $(VENV)/.developer
	@$(BIN)/python -m tests.world --days=$(DAYS) --seed=$(SEED) --seeds=$(SEEDS)

# For an hour by default: everything at once, and one disturbance after the other.
soak: $(VENV)/.developer
	HTOOLSD_SOAK_SECONDS=$$(awk 'BEGIN { print $(HOURS) * 3600 }') HTOOLSD_TEST_PATIENCE=300 $(BIN)/python -m pytest -n 0 --capture=no tests/daemon/test_soak.py

bench: $(VENV)/.developer
	@$(BIN)/python bench/bench.py

bench-full: $(VENV)/.developer
	@$(BIN)/python bench/bench.py --full

# PREFIX, DESTDIR and PYTHON as usual. The test of the manual pages is that of mandoc (`mandoc -T lint`).
install: $(if $(shell command -v pandoc),man)
	@packaging/install.py --root "$(DESTDIR)/" --prefix "$(PREFIX)" --python "$(PYTHON)" --dependencies "$(DEPENDENCIES)"
	@test -e build/man || echo "without manual pages, which need pandoc (apt-get install pandoc)" >&2

uninstall:
	@packaging/install.py --root "$(DESTDIR)/" --prefix "$(PREFIX)" --remove

# What is built goes into build/. A folder gets Debian 13.
deb:
	@SOURCE_DATE_EPOCH=$(SOURCE_DATE_EPOCH) packaging/deb

deb-debian-13:
	@.ci/debian-13 .cache/debian-13/root build-essential debhelper pandoc python3
	@SOURCE_DATE_EPOCH=$(SOURCE_DATE_EPOCH) packaging/deb .cache/debian-13/root

archives: $(VENV)/.installed
	@SOURCE_DATE_EPOCH=$(SOURCE_DATE_EPOCH) packaging/archives $(BIN)/python

release-check: $(VENV)/.developer
	@packaging/release-check

release: $(VENV)/.installed
	@packaging/release

test-deb:
	@for release in 12 13; do [ ! -e build/htoolsd_*~deb$${release}_*.deb ] || packaging/test-deb $$release || exit; done

man: $(patsubst %.md,build/%,$(wildcard man/*.md))

# mandoc wants no paragraph behind a heading, has no font named C, and no escapes in dates. Cells of tables are too
# narrow to be adjusted.
build/man/%: man/%.md
	@command -v pandoc >/dev/null || { echo "make man needs pandoc (apt-get install pandoc)" >&2; exit 1; }
	@mkdir -p $(@D)
	@pandoc --standalone --from=markdown-smart --to=man --metadata=date:$(DATE) $< | \
		sed -e '/^\.S[HS]/ { n; /^\.PP$$/ d }' -e '/^\\f\[C\]$$/ d' -e '/^\.TH / { s/\\-/-/g; a .ad l' -e '}' >$@.new
	@mv $@.new $@

clean:
	rm -rf $(VENV) .venv-lowest .cache build dist *.egg-info .coverage
	rm -rf .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
