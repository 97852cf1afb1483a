"""The reference scenario (R-TEST-2), part by part, against the real binary.

All times and counts are the provider's own. Governors run side by side where the
scenario is about what differs between them.
"""

import json

import pytest

from rig import config
from rig.until import Calls, at_once, until

HOLD_S = 10


def read_policy(**read):
    limits = {"max_attempts": 4, "max_wait_seconds": 90, "retry_statuses": [408, 429, 500, 502, 503, 504]}
    return {"request_classes": {"read": {**limits, **read}}}


class Shared:
    """One account at a provider of its own, and three tasks that want the same read."""

    def __init__(self, new_provider, new_governor, number):
        self.provider = new_provider(name=f"provider-{number}", seed=number)
        settings = config.billing(self.provider, **read_policy())
        self.governor = new_governor(settings, env=config.SECRETS, name=f"governor-{number}")

    def read(self, task):
        with self.governor.agent("billing", **{"Rategov-Agent": f"agent-{task}", "Rategov-Task": task}) as agent:
            return agent.get("/records")

    def play(self):
        """The first answer is a 429; the others come while the scope is closed."""
        self.provider.script({"calls": "GET /records", "status": 429, "headers": {"retry-after": str(HOLD_S)}})
        calls = Calls()
        calls.go(self.read, "task-1")
        until("the refusal to be known", lambda: self.closed())
        calls.go(self.read, "task-2")
        calls.go(self.read, "task-3")
        return calls.all()

    def closed(self):
        return any(s["mode"] == "closed" for s in self.governor.api("scopes")["scopes"])


def test_nothing_arrives_before_retry_after_and_then_no_wave(new_provider, new_governor):
    worlds = at_once([lambda n=n: Shared(new_provider, new_governor, n) for n in (1, 2, 3)])
    answers = at_once([world.play for world in worlds])
    returns = []
    for world, three in zip(worlds, answers, strict=True):
        assert [a.status_code for a in three] == [200] * 3, "a refusal is absorbed"
        assert sorted(int(a.headers["rategov-attempts"]) for a in three) == [1, 1, 2]
        ledger = world.provider.ledger()
        assert ledger.arrived == 4, "not coalesced: three reads and one repeat"
        assert [a["status"] for a in ledger.arrivals] == [429, 200, 200, 200]
        refused_at = ledger.arrivals[0]["ended_at_us"] / 1e6
        after = [at - refused_at for at in ledger.times()[1:]]
        assert HOLD_S <= after[0], f"the scope was closed, and yet: {after}"
        gaps = [later - earlier for earlier, later in zip(after, after[1:], strict=False)]
        assert all(0.05 <= gap for gap in gaps), f"a wave: {after}"
        assert after[-1] < HOLD_S + 20, f"and it comes back: {after}"
        returns.append(round(after[0], 3))
        world.governor.until_idle()
        text = "\n".join(world.governor.audit())
        assert "status=429 outcome=refused retry_after=10" in text or "retry_after=10" in text
    assert len(set(returns)) == 3, f"three governors come back at three times: {returns}"


def test_a_write_cut_after_its_effect_is_looked_up_and_not_made_again(provider, new_governor):
    governor = new_governor(config.billing(provider), env=config.SECRETS)
    provider.script({"calls": "POST /records", "fault": "reset_after_effect"})
    with governor.agent("billing", **{"Idempotency-Key": "rec-91f2"}) as agent:
        answer = agent.post("/records", json={"name": "once"})
    assert answer.status_code == 200
    assert answer.json()["name"] == "once" and answer.json()["id"] == "rec_1"
    assert answer.headers["rategov-terminal"] == "reconciled"
    ledger = provider.ledger()
    assert [a["method"] for a in ledger.arrivals] == ["POST", "GET"]
    assert ledger.arrivals[0]["key"] == "rec-91f2"
    assert ledger.arrivals[1]["target"] == "/records?key=rec-91f2"
    assert len(ledger.effects) == 1 and ledger.most_effects() == 1
    events = [line.split()[1] for line in governor.audit("--action", "rec-91f2")]
    order = ["action_requested", "action_sent", "action_result", "reconciliation_required", "reconciled"]
    assert [e for e in events if e in order] == order
    governor.until_idle()


CANARY = "canary-body-5d1c"


def test_a_spent_time_budget_asks_a_person_and_cancelled_work_never_wakes(provider, new_governor):
    hold = 4
    settings = config.billing(provider, **read_policy(max_wait_seconds=1))
    governor = new_governor(settings, env=config.SECRETS)
    body = {"error": {"message": "too many calls"}, "request": {"name": CANARY}}
    refusal = {"status": 429, "headers": {"retry-after": str(hold)}, "body": body}
    provider.script({"calls": "GET /records", **refusal})
    told = {"Rategov-Task": "sync-482", "Rategov-Goal": "copy the records"}
    with governor.agent("billing", **told) as agent:
        answer = agent.get("/records")
        # The provider's own last word, with the time; the wait is a person's to decide.
        assert answer.status_code == 429
        assert answer.headers["retry-after"] == str(hold)
        assert answer.headers["x-should-retry"] == "false"
        action = answer.headers["rategov-action"]
        question = governor.escalation()
        assert question["trigger"] == "wait_beyond_deadline"
        words = {c["choice"] for c in question["choices"]}
        assert {"wait", "raise_quota", "change_plan", "cancel"} == words
        dossier = question["dossier"]
        assert (dossier["task"], dossier["goal"]) == ("sync-482", "copy the records")
        assert dossier["endpoint"] == "GET /records" and dossier["account"] == "billing/ops"
        assert dossier["attempts"][0]["status"] == 429
        everything = json.dumps(question)
        assert CANARY not in everything, "no body in the dossier"
        assert config.BILLING_KEY not in everything
        # Another call of the task waits; then the task is cancelled.
        calls = Calls()
        calls.go(agent.get, "/records/rec_7")
        until("it to wait", lambda: governor.api("queue")["queue"])
        governor.cli("tasks", "cancel", "sync-482")
        gone = calls.all()[0]
    assert gone.status_code == 410 and gone.json()["code"] == "cancelled"
    assert not governor.api("queue")["queue"]
    # The scope reopens for others; of the cancelled task nothing arrives.
    with governor.agent("billing", **{"Rategov-Task": "other"}) as other:
        assert other.get("/records/none").status_code == 404
    with governor.agent("billing", **told) as agent:
        late = agent.get("/records")
    assert late.status_code == 410, "a cancelled task makes no new calls"
    ledger = provider.ledger()
    assert [a["target"] for a in ledger.arrivals] == ["/records", "/records/none"]
    assert hold <= ledger.times()[1] - ledger.arrivals[0]["ended_at_us"] / 1e6
    assert governor.action(action)["final"]
    governor.until_idle()


def test_cancelled_work_stays_cancelled_over_a_restart(provider, new_governor):
    governor = new_governor(config.billing(provider, **read_policy()), env=config.SECRETS)
    provider.script({"calls": "GET /records", "status": 429, "headers": {"retry-after": "3"}})
    calls = Calls()
    with governor.agent("billing", **{"Rategov-Task": "doomed", "Prefer": "respond-async"}) as agent:
        calls.go(agent.get, "/records")
        until("it to wait for its repeat", lambda: governor.api("queue")["queue"])
        governor.cli("tasks", "cancel", "doomed")
        calls.all()
    governor.kill()
    governor.start()
    with governor.agent("billing") as other:
        assert other.get("/records/none").status_code == 404
    with governor.agent("billing", **{"Rategov-Task": "doomed"}) as agent:
        assert agent.get("/records").status_code == 410
    assert [a["target"] for a in provider.ledger().arrivals] == ["/records", "/records/none"]
    ended = {"cancelled_not_sent", "failed_definite"}
    until("it to end", lambda: {a["state"] for a in governor.actions(task="doomed")} <= ended)
    governor.chain_holds()


@pytest.mark.parametrize("fault", ["silence_after_effect", "silence_before_effect"])
def test_a_kill_during_an_uncertain_write_reconciles_with_the_original_key(provider, new_governor, fault):
    governor = new_governor(config.billing(provider), env=config.SECRETS)
    provider.script({"calls": "POST /records", "fault": fault})
    calls = Calls()
    headers = {"Idempotency-Key": "rec-kill", "Rategov-Task": "sync-482"}

    def write():
        with governor.agent("billing", **headers) as agent:
            return agent.post("/records", json={"name": "once"})

    calls.go(lambda: pytest.raises(Exception, write))
    provider.wait_for(arrivals=1)
    governor.kill()
    calls.all()
    governor.start()
    # Nobody calls again: the restart alone settles it.
    until("it to be settled", lambda: governor.action("rec-kill")["final"])
    action = governor.action("rec-kill")
    assert action["state"] == "succeeded" and not action["uncertain"]
    ledger = provider.ledger()
    assert len(ledger.effects) == 1 and ledger.most_effects() == 1
    assert {a["key"] for a in ledger.of(method="POST")} == {"rec-kill"}
    assert len(ledger.of(method="POST")) == (1 if fault == "silence_after_effect" else 2)
    assert ledger.of(method="GET")[0]["target"] == "/records?key=rec-kill", "it asked before it sent"
    # The agent, back with the same key, gets the result and makes no second record.
    answer = write()
    assert answer.status_code in (200, 201), answer.text
    assert answer.json()["name"] == "once"
    assert len(provider.ledger().effects) == 1
    governor.until_idle()
    governor.chain_holds()
