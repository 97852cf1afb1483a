"""A quota of tokens is kept although nobody knows what an answer will take.

Answers are heavy-tailed and `max_tokens` says nothing about them. What each call was
charged is read from the provider's ledger, and compared with what the governor settled.
"""

import json
import re

import pytest

from rig import config
from rig.until import Calls, until

LIMIT, WINDOW_S = 20_000, 2
QUOTA = f"sliding:{LIMIT}/{WINDOW_S}s,of=tokens,name=tokens"
DECLARED = {"scope": "account", "dimension": "tokens", "limit": LIMIT, "window": f"{WINDOW_S}s", "kind": "sliding"}
CHAT = "/v1/chat/completions"


def start(new_provider, new_governor, api="openai", **how):
    provider = new_provider(quota=QUOTA, headers="retry-after-only", **how)
    account = {"credential": "env:REAL_OPENAI", "quotas": [DECLARED]}
    named = {"base_url": provider.url, "accounts": {"lab": account}}
    governor = new_governor({"hold": "60s", "providers": {api: named}}, env=config.SECRETS)
    return provider, governor


def prompt(number, **more):
    words = {"role": "user", "content": f"question {number}: " + "why " * 100}
    return {"model": "m", "messages": [words], "max_tokens": 4096, **more}


def settled(governor):
    """The tokens that each call was settled with, as the journal has it."""
    records = governor.api("journal?event=settled&limit=1000")["records"]
    return sorted(int(re.search(r" tokens=(\d+)", record["text"])[1]) for record in records)


def charged(provider):
    return sorted(a["charged"]["tokens"] for a in provider.ledger().arrivals if a["charged"])


def test_a_declared_quota_of_tokens_is_kept_and_each_call_is_settled_as_it_was_charged(
    new_provider, new_governor
):
    provider, governor = start(new_provider, new_governor, answers="300~100")
    calls = Calls()

    def call(number):
        stream = {"stream": True, "stream_options": {"include_usage": True}} if number % 2 else {}
        with governor.agent("openai", authorization="Bearer held-by-rategov") as agent:
            return agent.post(CHAT, json=prompt(number, **stream), timeout=90).status_code

    for number in range(60):
        calls.go(call, number)
    assert calls.all(within=120) == [200] * 60
    assert provider.ledger().refused == 0, "no call was sent that did not fit"
    until("all to be settled", lambda: len(settled(governor)) == 60)
    assert settled(governor) == charged(provider)


def test_a_stream_that_is_left_half_way_is_settled_by_what_had_passed(new_provider, new_governor):
    provider, governor = start(new_provider, new_governor, answers="2000~0")
    provider.script({"calls": f"POST {CHAT}", "fault": "slow_body", "pieces": 1000, "pause_ms": 20})
    with governor.agent("openai", authorization="Bearer held-by-rategov") as agent:
        with agent.stream("POST", CHAT, json=prompt(1, stream=True), timeout=60) as answer:
            seen = ""
            for line in answer.iter_lines():
                if line.startswith("data: {"):
                    choices = json.loads(line.removeprefix("data: "))["choices"]
                    seen += (choices[0]["delta"].get("content") or "") if choices else ""
                if 400 < len(seen):
                    break
    [tokens] = until("it to be settled", lambda: settled(governor))
    [record] = governor.api("journal?event=settled")["records"]
    assert "estimated=yes" in record["text"]
    asked = len(json.dumps(prompt(1, stream=True))) // 4
    # At least what was read, and not the 2,000 that the whole would have taken.
    assert asked * 0.7 + len(seen) / 4 * 0.9 <= tokens < 1_000, record["text"]
    assert governor.busy() == []


@pytest.mark.parametrize(
    ("api", "path", "body"),
    [
        ("openai", "/v1/responses", {"model": "m", "input": "why"}),
        ("anthropic", "/v1/messages", prompt(1)),
        ("anthropic", "/v1/messages", prompt(1, stream=True)),
        ("gemini", "/v1beta/models/m:generateContent", {"contents": [{"parts": [{"text": "why"}]}]}),
        (
            "gemini",
            "/v1beta/models/m:streamGenerateContent?alt=sse",
            {"contents": [{"parts": [{"text": "why"}]}]},
        ),
    ],
    ids=["responses", "messages", "messages-stream", "gemini", "gemini-stream"],
)
def test_each_dialect_is_settled_as_it_was_charged(new_provider, new_governor, api, path, body):
    provider, governor = start(new_provider, new_governor, api, answers="300~100")
    with governor.agent(api, authorization="Bearer held-by-rategov") as agent:
        answer = agent.post(path, json=body, timeout=60)
    assert answer.status_code == 200, answer.text
    until("it to be settled", lambda: settled(governor))
    assert settled(governor) == charged(provider)
    [record] = governor.api("journal?event=settled")["records"]
    assert "estimated" not in record["text"]
