"""Waiting for something to become true, never for time to pass."""

import threading
import time

# How often is looked. Short, because looking is cheap and waiting is not.
PAUSE_S = 0.01


def until(what, look, within=10.0):
    """Looks until `look()` is truthy, and returns what it returned.

    Fails after `within` seconds, naming `what` was waited for.
    """
    deadline = time.monotonic() + within
    while True:
        seen = look()
        if seen:
            return seen
        if deadline < time.monotonic():
            raise AssertionError(f"waited {within} s for {what}; last seen: {seen!r}")
        time.sleep(PAUSE_S)


class Calls:
    """Calls that run at the same time, each in a thread of its own."""

    def __init__(self):
        self._threads = []
        self._ends = []
        self._lock = threading.Lock()

    def go(self, call, *args, **kwargs):
        """Begins a call; returns its number."""
        number = len(self._threads)
        self._ends.append(None)

        def run():
            try:
                end = ("value", call(*args, **kwargs))
            except BaseException as error:  # noqa: BLE001 - raised again where it is asked for
                end = ("error", error)
            with self._lock:
                self._ends[number] = end

        thread = threading.Thread(target=run, daemon=True)
        self._threads.append(thread)
        thread.start()
        return number

    def ended(self):
        """How many calls have ended."""
        with self._lock:
            return sum(end is not None for end in self._ends)

    def all(self, within=60.0):
        """What the calls returned, in order. The first error is raised."""
        deadline = time.monotonic() + within
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        open_calls = [n for n, end in enumerate(self._ends) if end is None]
        assert not open_calls, f"calls {open_calls} did not end within {within} s"
        for kind, value in self._ends:
            if kind == "error":
                raise value
        return [value for _, value in self._ends]


def at_once(calls, within=60.0):
    """Runs functions at the same time and returns what they returned, in order."""
    running = Calls()
    for call in calls:
        running.go(call)
    return running.all(within)
