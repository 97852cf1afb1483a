"""Fixtures of the end-to-end tests: the binary, providers, governors, and their logs.

Each test gets a folder, a provider and governors of its own, on free ports. If it
fails, the last lines of every program that it started are shown with it.
"""

import os
import shutil
from pathlib import Path

import pytest

from rig import process
from rig.governor import Governor
from rig.provider import Provider

# Lines of each program that a failure shows.
SHOWN_LINES = 60


@pytest.fixture(scope="session")
def binary():
    """The product. `cargo xtask test` names the one that it built."""
    named = os.environ.get("RATEGOV_BIN")
    root = Path(__file__).parent.parent
    found = named or shutil.which("rategov") or str(root / "target/debug/rategov")
    assert Path(found).is_file(), f"{found} is not there; hint: cargo build, or set RATEGOV_BIN"
    return found


@pytest.fixture(autouse=True)
def programs():
    """Every program of a test ends with it."""
    process.STARTED.clear()
    yield process.STARTED
    for started in reversed(process.STARTED):
        started.kill()


@pytest.fixture
def new_provider(binary, tmp_path, programs):
    """Starts providers."""
    return lambda **how: Provider(binary, tmp_path, **how)


@pytest.fixture
def new_governor(binary, tmp_path, programs):
    """Starts governors."""
    return lambda config=None, **how: Governor(binary, tmp_path, config, **how)


@pytest.fixture
def provider(new_provider):
    """A provider without limits that answers at once."""
    return new_provider()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Shows the programs' last lines with a failure."""
    outcome = yield
    report = outcome.get_result()
    if report.when != "call" or report.passed:
        return
    for started in process.STARTED:
        lines = (started.out() + started.err()).splitlines()[-SHOWN_LINES:]
        report.sections.append((f"{started.name} (alive: {started.alive()})", "\n".join(lines)))
