"""Two hundred agents behind one refused scope wake without a herd (Must show 4).

None of them fails for the refusal, and after the hold at most one more 429 is seen,
counted by the provider. Answers to calls that were on the wire when the scope closed
are echoes of the same event and are counted apart.
"""

import pytest

from rig import config
from rig.raw import ask
from rig.until import Calls, until

AGENTS = 200
HOLD_S = 3


def settings_of(provider, quotas):
    account = {"quotas": quotas} if quotas else None
    return config.billing(provider, account=account, hold="60s")


def play(provider, governor):
    """One agent is refused, and two hundred want to call meanwhile. Returns the answers."""
    provider.script({"calls": "GET /records", "status": 429, "headers": {"retry-after": str(HOLD_S)}})

    def call(number):
        fields = [("Rategov-Agent", f"agent-{number}")]
        return ask(governor.host, governor.port, "GET", "/billing/records", fields, within=90)

    def closed():
        return any(s["mode"] == "closed" for s in governor.api("scopes")["scopes"])

    calls = Calls()
    calls.go(call, 0)
    until("the scope to close", closed)
    # The herd gathers while the scope is closed.
    for number in range(1, AGENTS):
        calls.go(call, number)
    return calls.all(within=120)


LIMIT, WINDOW_S = 100, 4
QUOTA = f"sliding:{LIMIT}/{WINDOW_S}s"
DECLARED = [{"scope": "account", "dimension": "requests", "limit": LIMIT, "window": f"{WINDOW_S}s", "kind": "sliding"}]


@pytest.mark.parametrize(
    ("quotas", "headers"),
    [(DECLARED, "retry-after-only"), (None, "x-ratelimit"), (None, "retry-after-only")],
    ids=["declared", "told-by-headers", "undeclared"],
)
def test_two_hundred_agents_wake_without_a_herd(new_provider, new_governor, quotas, headers):
    provider = new_provider(quota=QUOTA, headers=headers)
    governor = new_governor(settings_of(provider, quotas), env=config.SECRETS)
    answers = play(provider, governor)
    assert [a.status for a in answers] == [200] * AGENTS, "none fails for the refusal"
    ledger = provider.ledger()
    first = ledger.arrivals[0]
    assert first["status"] == 429
    reopened_at = first["ended_at_us"] / 1e6 + HOLD_S
    early = [at for at in ledger.times()[1:] if at < reopened_at]
    assert not early, f"{len(early)} calls arrived while the scope was closed"
    refused = [a for a in ledger.arrivals[1:] if a["status"] == 429]
    assert len(refused) <= 1, f"{len(refused)} more refusals after the hold"
    times = ledger.times()[1:]
    busiest = max(sum(at <= other < at + 0.1 for other in times) for at in times)
    assert busiest <= LIMIT // 2, f"a herd: {busiest} calls within 100 ms"
    assert ledger.arrived == AGENTS + 1 + len(refused), "every repeat is the governor's, and counted"
    governor.until_idle()
