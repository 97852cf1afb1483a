"""Unmodified official SDKs through the gateway (Must show 1): only the base URL changes.

The agents in `programs/` talk straight to the provider, through `rategov serve`, and
under `rategov exec`. They must hear the same; what arrived, and with which credential,
is read from the provider's ledger.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from programs import anthropic_sdk, openai_sdk
from rig import config
from rig.process import environment
from rig.provider import label_of
from rig.until import at_once

PROGRAMS = Path(__file__).parent.parent / "programs"
OWN = {"openai": "sk-own-openai-00aa11bb", "anthropic": "sk-ant-own-22cc33dd"}
REAL = {"openai": config.OPENAI_KEY, "anthropic": config.ANTHROPIC_KEY}
# SDKs that import for long on a busy machine are slow to begin; nothing here is timed.
PROGRAM_S = 150


class Python:
    """One of the Python SDKs: in this process, or as a program of its own."""

    def __init__(self, name, program, client, suffix):
        self.name, self.program, self.client = name, program, client
        self.suffix, self.calls = suffix, program.CALLS
        self.argv = [sys.executable, PROGRAMS / f"{program.__name__.split('.')[-1]}.py"]

    def talk(self, base, key, prompt):
        """Talks to `base`, which is where the provider's own address would stand."""
        client = self.client(base_url=base + self.suffix, api_key=key)
        return self.program.talk(client, prompt)


class Node:
    """The Node SDK: always a program of its own."""

    name, calls = "openai", 4
    argv = ["node", PROGRAMS / "openai_sdk.mjs"]

    def talk(self, base, key, prompt):
        env = {"OPENAI_BASE_URL": f"{base}/v1", "OPENAI_API_KEY": key}
        done = subprocess.run(
            [str(part) for part in [*self.argv, prompt]],
            env=environment(env),
            capture_output=True,
            text=True,
            timeout=PROGRAM_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


OPENAI = Python("openai", openai_sdk, openai_sdk.OpenAI, "/v1")
ANTHROPIC = Python("anthropic", anthropic_sdk, anthropic_sdk.Anthropic, "")
NODE = Node()
ALL = pytest.mark.parametrize("sdk", [OPENAI, ANTHROPIC, NODE], ids=["openai", "anthropic", "node"])


def under_exec(governor, sdk, prompt, *options, env=None):
    """Runs an agent under `rategov exec`, which tells it base URL and, if it has none, a key."""
    argv = ["exec", *options, "--", *sdk.argv, prompt]
    return json.loads(governor.cli(*argv, env=env, within=PROGRAM_S).stdout)


@ALL
def test_an_agent_hears_the_same_directly_through_serve_and_under_exec(provider, new_governor, sdk):
    own = OWN[sdk.name]
    governor = new_governor(config.pass_through(provider))
    expected = sdk.talk(provider.url, own, "hello")
    assert expected["plain"] and expected["streamed"]
    assert sdk.talk(governor.url(sdk.name), own, "hello") == expected
    keys = {"OPENAI_API_KEY": own, "ANTHROPIC_API_KEY": own}
    options = ("--agent", "desk", "--priority", "interactive")
    assert under_exec(governor, sdk, "hello", *options, env=keys) == expected

    ledger = provider.ledger()
    assert ledger.arrived == 3 * sdk.calls, "every call arrived once"
    assert ledger.credentials() == {label_of(own)}, "pass-through leaves the key alone"
    ours = [a["marks"] for a in ledger.arrivals if any(m.startswith("rategov") for m in a["marks"])]
    assert not ours, "no field of the governor goes up"
    by = {(a["agent"], a["priority"]) for a in governor.actions()}
    assert by == {("default", "normal"), ("desk", "interactive")}
    governor.until_idle()
    governor.chain_holds()


@ALL
def test_an_agents_token_stands_for_the_credential_and_never_leaves(provider, new_governor, sdk):
    governor = new_governor(config.with_agents(provider), env=config.SECRETS)
    sdk.talk(governor.url(sdk.name), config.TOKENS["desk"], "hello")
    ledger = provider.ledger()
    assert ledger.arrived == sdk.calls
    assert ledger.credentials() == {label_of(REAL[sdk.name])}
    by = {(a["agent"], a["priority"], a["account"]) for a in governor.actions()}
    assert by == {("desk", "interactive", f"{sdk.name}/lab")}


def test_several_agents_and_priorities_share_one_provider_at_once(provider, new_governor):
    governor = new_governor(config.with_agents(provider), env=config.SECRETS)
    runs = [
        (OPENAI, ("--agent", "desk", "--priority", "interactive")),
        (ANTHROPIC, ("--agent", "worker", "--priority", "normal", "--task", "report-7")),
        # More than its ceiling is not given.
        (NODE, ("--agent", "sync-bot", "--priority", "interactive")),
    ]
    said = at_once(
        [
            *[lambda run=run: under_exec(governor, run[0], "at once", *run[1]) for run in runs],
            lambda: OPENAI.talk(governor.url("openai"), config.TOKENS["worker"], "at once"),
            lambda: ANTHROPIC.talk(governor.url("anthropic"), config.TOKENS["sync-bot"], "at once"),
        ],
        within=PROGRAM_S,
    )
    assert said[0] == said[3] and said[1] == said[4], "the same question, the same answer"
    calls = [OPENAI, ANTHROPIC, NODE, OPENAI, ANTHROPIC]
    ledger = provider.ledger()
    assert ledger.arrived == sum(sdk.calls for sdk in calls)
    # Under exec a program has no key at all; the run says who it is.
    assert ledger.credentials() == {label_of(key) for key in REAL.values()}
    seen = {(a["agent"], a["priority"], a["task"]) for a in governor.actions()}
    runs_own = {task for agent, _, task in seen if task not in (None, "report-7")}
    assert {(agent, priority) for agent, priority, _ in seen} == {
        ("desk", "interactive"),
        ("worker", "normal"),
        ("sync-bot", "background"),
    }
    assert ("worker", "normal", "report-7") in seen
    assert len(runs_own) == 2, "a run that names no task gets one of its own"
    governor.until_idle()


@ALL
def test_a_refusal_is_absorbed_before_the_sdk_sees_it(provider, new_governor, sdk):
    governor = new_governor(config.pass_through(provider))
    provider.script({"status": 429, "headers": {"retry-after": "1"}})
    said = sdk.talk(governor.url(sdk.name), OWN[sdk.name], "patience")
    assert said["plain"] and said["streamed"]
    ledger = provider.ledger()
    assert ledger.arrived == sdk.calls + 1, "the refused call was repeated once, by the governor"
    first, second = ledger.times()[:2]
    assert 1.0 <= second - first, "not before Retry-After"
    marks = [a["marks"].get("x-stainless-retry-count", "0") for a in ledger.arrivals]
    assert set(marks) == {"0"}, "the SDK had nothing to repeat"


def test_exec_passes_the_exit_code_on_and_ends_the_run(provider, new_governor):
    governor = new_governor(config.pass_through(provider))
    script = "import os, sys; print(os.environ['OPENAI_BASE_URL']); sys.exit(7)"
    options = ("exec", "--agent", "desk", "--task", "one-off", "--")
    done = governor.cli(*options, sys.executable, "-c", script, check=False)
    assert done.returncode == 7
    url = done.stdout.strip()
    assert url.startswith(f"{governor.agents}/run/") and url.endswith("/openai/v1")
    with governor.agent() as agent:
        answer = agent.get(f"{url}/models")
    assert answer.status_code == 401, "a run's token is worth nothing once its program ended"
    assert answer.json()["code"] == "unauthenticated"
    assert provider.ledger().arrived == 0
    again = governor.cli(*options, "true", check=False)
    assert again.returncode != 0 and "one-off of desk has ended" in again.stderr
    options = ("exec", "--agent", "desk", "--task", "another", "--")
    missing = governor.cli(*options, "no-such-program-here", check=False)
    assert missing.returncode != 0 and "can't be started" in missing.stderr
