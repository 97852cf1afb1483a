"""One program of a test: started, watched through its log, and ended for certain."""

import os
import re
import signal
import subprocess

from rig.until import until

# Every program of the running test, so that its log can be shown if the test fails.
STARTED = []

# What a program may inherit. Nothing else of the machine reaches it: a proxy or a
# key that happens to be set there must not decide a test.
INHERITED = ("PATH", "HOME", "LANG", "TMPDIR", "LD_LIBRARY_PATH")


def environment(extra=None):
    """A clean environment, with `extra` on top."""
    kept = {name: os.environ[name] for name in INHERITED if name in os.environ}
    return {**kept, "NO_COLOR": "1", "NO_PROXY": "*", **(extra or {})}


class Process:
    """A program whose output goes to two files."""

    def __init__(self, name, argv, folder, env=None):
        self.name = name
        self.out_file = folder / f"{name}.out"
        self.err_file = folder / f"{name}.err"
        with self.out_file.open("wb") as out, self.err_file.open("wb") as err:
            self.child = subprocess.Popen(
                [str(part) for part in argv],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=environment(env),
                cwd=folder,
            )
        STARTED.append(self)

    def out(self):
        return self.out_file.read_text(errors="replace")

    def err(self):
        return self.err_file.read_text(errors="replace")

    def alive(self):
        return self.child.poll() is None

    def line(self, pattern, within=20.0):
        """Waits for a line in either output, and returns the match."""

        def look():
            found = re.search(pattern, self.out() + self.err(), re.MULTILINE)
            if found is None and not self.alive():
                raise AssertionError(f"{self.name} ended early:\n{self.out()}{self.err()}")
            return found

        return until(f"{self.name} to print {pattern!r}", look, within)

    def signal(self, number):
        self.child.send_signal(number)

    def wait(self, within=30.0):
        """Waits for its end and returns the exit code."""
        return self.child.wait(within)

    def kill(self):
        """Ends it as a power cut would: nothing of it runs any more."""
        if self.alive():
            self.child.send_signal(signal.SIGKILL)
        self.child.wait(10)
