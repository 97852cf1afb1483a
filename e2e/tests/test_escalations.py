"""Questions to a person: asked once, answered once, and never open for ever (R-ESC)."""

import json

import httpx
import pytest

from rig import config
from rig.problem import problem
from rig.until import at_once, until


@pytest.fixture
def start(provider, new_governor):
    def start(*endpoints, **top):
        return new_governor(config.billing(provider, *endpoints, **top), env=config.SECRETS)

    return start


def uncertain(provider, governor, path="/invites", key=None):
    """A write whose answer is lost after its effect. Returns its problem."""
    provider.script({"calls": f"POST {path}", "fault": "reset_after_effect"})
    headers = {"Idempotency-Key": key} if key else {}
    with governor.agent("billing", **headers) as agent:
        answer = agent.post(path, json={"to": "someone"})
    body = problem(answer, "escalated", 424)
    assert body["sent"] is True and body["state"] == "escalated" and body["attempts"] == 1
    assert answer.headers["x-should-retry"] == "false"
    assert answer.headers["link"].startswith(f"</governor/v1/actions/{body['action']}>")
    return body


def fetch(governor, action, part=""):
    with governor.agent() as agent:
        return agent.get(f"/actions/{action}{part}")


def choices(question):
    return [c["choice"] for c in question["choices"]]


def test_the_question_names_what_is_known_and_what_is_safe(provider, start):
    governor = start()
    asked = uncertain(provider, governor)
    listed = governor.cli("escalations", "list").stdout
    assert asked["escalation"] in listed and "uncertain_effect" in listed
    shown = governor.cli("escalations", "show", asked["escalation"]).stdout
    for words in ("POST /invites", "billing/ops", "it_happened", "it_did_not", "cancel", "certainty unknown"):
        assert words in shown, shown
    question = governor.json("escalations", "show", asked["escalation"])
    assert choices(question) == ["it_happened", "it_did_not", "cancel"], "nothing that could do it twice"
    assert "someone" not in json.dumps(question), "no body in the dossier"
    assert fetch(governor, asked["action"]).json()["escalation"] == asked["escalation"]
    governor.until_idle()


@pytest.mark.parametrize(
    ("choice", "state", "next_step"),
    [
        ("it_happened", "succeeded", "check_provider"),
        ("it_did_not", "failed_definite", "send_again"),
        ("cancel", "abandoned_unknown", "check_provider"),
    ],
)
def test_what_a_person_found_out_ends_the_action(provider, start, choice, state, next_step):
    governor = start()
    asked = uncertain(provider, governor)
    governor.cli("escalations", "decide", asked["escalation"], choice, "--note", "asked them")
    action = until("it to end", lambda: (a := fetch(governor, asked["action"]).json())["final"] and a)
    assert action["state"] == state
    assert action["terminal"]["next"] == next_step
    question = governor.api(f"escalations/{asked['escalation']}")
    assert (question["chosen"], question["decided_by"], question["note"]) == (choice, "operator", "asked them")
    late = governor.cli("escalations", "decide", asked["escalation"], "cancel", check=False)
    assert late.returncode == 1 and "answered" in late.stderr
    assert not governor.escalations()
    ledger = provider.ledger()
    assert ledger.arrived == 1 and len(ledger.effects) == 1
    journal = "\n".join(governor.audit("--action", asked["action"]))
    assert "escalated" in journal and f"decided           choice={choice} by=operator" in journal, journal
    governor.until_idle()


def test_a_new_operation_needs_a_typed_confirmation_and_has_a_key_of_its_own(provider, start):
    governor = start(escalation={"allow_send_new_operation": True})
    asked = uncertain(provider, governor)
    question = governor.api(f"escalations/{asked['escalation']}")
    assert choices(question)[-1] == "send_new_operation", "the riskiest comes last"
    decide = ("escalations", "decide", asked["escalation"], "send_new_operation")
    unconfirmed = governor.cli(*decide, check=False)
    assert unconfirmed.returncode == 1 and "this may happen twice" in unconfirmed.stderr
    assert provider.ledger().arrived == 1
    governor.cli(*decide, "--confirm", "this may happen twice")
    ledger = provider.wait_for(arrivals=2, effects=2)
    assert [a["target"] for a in ledger.arrivals] == ["/invites"] * 2
    assert ledger.arrivals[0]["body_sha256"] == ledger.arrivals[1]["body_sha256"]
    parent = until("the parent to end", lambda: (a := governor.action(asked["action"]))["final"] and a)
    assert parent["state"] == "superseded"
    child = until(
        "the child to end",
        lambda: next((a for a in governor.actions() if a["parent"] == asked["action"] and a["final"]), None),
    )
    assert child["state"] == "succeeded" and child["key"] != parent["key"] or child["key"] is None
    governor.until_idle()


def test_asking_the_provider_again_finds_the_result(provider, new_governor):
    once = {**config.RECORDS, "reconcile": {**config.RECORDS["reconcile"], "max_lookups": 1}}
    settings = config.billing(provider)
    endpoints = settings["providers"]["billing"]["endpoints"]
    endpoints[endpoints.index(config.RECORDS)] = once
    governor = new_governor(settings, env=config.SECRETS)
    provider.script({"calls": "GET /records", "status": 503, "times": "always"})
    asked = uncertain(provider, governor, "/records", "rec-1")
    question = governor.api(f"escalations/{asked['escalation']}")
    assert choices(question)[0] == "query_existing_operation", "the safest comes first"
    assert question["dossier"]["lookups"] == 1
    provider.script(clear=True)
    governor.cli("escalations", "decide", asked["escalation"], "query_existing_operation")
    until("it to end", lambda: governor.action("rec-1")["state"] == "succeeded")
    result = fetch(governor, "rec-1", "/result")
    assert result.status_code == 200 and result.json()["id"] == "rec_1"
    ledger = provider.ledger()
    assert len(ledger.of(method="POST")) == 1 and len(ledger.effects) == 1
    governor.until_idle()


def test_the_same_key_again_has_no_second_effect(provider, start):
    few = {"idempotent_write": {"max_attempts": 1, "max_wait_seconds": 0, "retry_statuses": []}}
    governor = start(request_classes=few)
    asked = uncertain(provider, governor, "/jobs", "job-1")
    question = governor.api(f"escalations/{asked['escalation']}")
    assert choices(question)[0] == "retry_same_key"
    governor.cli("escalations", "decide", asked["escalation"], "retry_same_key")
    until("it to end", lambda: governor.action("job-1")["state"] == "succeeded")
    ledger = provider.ledger()
    assert [a["key"] for a in ledger.of(method="POST")] == ["job-1"] * 2
    assert len(ledger.effects) == 1
    result = fetch(governor, "job-1", "/result")
    assert result.status_code == 200 and result.json()["object"] == "operation"


@pytest.mark.parametrize("choice", ["wait", "raise_quota", "change_plan", "cancel"])
def test_a_scope_whose_wait_is_too_long_is_a_persons_to_decide(provider, start, choice):
    few = {"read": {"max_attempts": 2, "max_wait_seconds": 1, "retry_statuses": [429]}}
    governor = start(request_classes=few)
    provider.script({"calls": "GET /records", "status": 429, "headers": {"retry-after": "3"}})
    with governor.agent("billing") as agent:
        assert agent.get("/records").status_code == 429
        question = governor.escalation()
        assert question["trigger"] == "wait_beyond_deadline"
        governor.cli("escalations", "decide", question["escalation"], choice, "--note", "60 per minute")
        assert not governor.escalations()
        journal = "\n".join(governor.audit())
        assert f"choice={choice}" in journal
        # The provider's own hold stands, unless the limit itself was changed: then one
        # call may see whether it accepts again.
        until("the scope to open", lambda: agent.get("/records/none").status_code == 404)
    ledger = provider.ledger()
    refused_at = ledger.arrivals[0]["ended_at_us"] / 1e6
    held = ledger.times()[1] - refused_at
    assert 3 <= held or choice == "raise_quota", held
    governor.until_idle()


def test_exactly_one_decision_wins(provider, start):
    governor = start()
    asked = uncertain(provider, governor)
    shown = governor.api(f"escalations/{asked['escalation']}")["version"]

    def decide(choice):
        with httpx.Client(headers=governor.door.headers, timeout=30) as operator:
            path = f"{governor.operators}/api/v1/escalations/{asked['escalation']}/decide"
            said = {"choice": choice, "version": shown, "note": choice, "decided_by": "somebody else"}
            return operator.post(path, json=said)

    answers = at_once([lambda c=c: decide(c) for c in 4 * ["it_happened", "it_did_not", "cancel"]])
    won = [a for a in answers if a.status_code == 200]
    assert len(won) == 1, [a.text for a in answers]
    for lost in (a for a in answers if a.status_code != 200):
        problem(lost, "conflict", 409)
    question = governor.api(f"escalations/{asked['escalation']}")
    assert question["chosen"] == won[0].json()["choice"] == question["note"]
    assert question["decided_by"] == "operator", "the decider is who the token says"
    decided = [line for line in governor.audit() if " decided " in line]
    assert len(decided) == 1
    governor.chain_holds()


def test_a_choice_that_is_not_offered_is_refused(provider, start):
    governor = start()
    asked = uncertain(provider, governor)
    refused = governor.cli("escalations", "decide", asked["escalation"], "retry_same_key", check=False)
    assert refused.returncode == 1 and "it_happened" in refused.stderr, "it names what is offered"
    unknown = governor.cli("escalations", "decide", asked["escalation"], "continue", check=False)
    assert unknown.returncode == 1 and "query_existing_operation" in unknown.stderr
    missing = governor.cli("escalations", "show", "00000000-0000-7000-8000-000000000000", check=False)
    assert missing.returncode == 1
    decide = f"/api/v1/escalations/{asked['escalation']}/decide"
    problem(governor.door.post(decide, json={"choice": "cancel", "version": 1}), "conflict", 409)
    problem(governor.door.post(decide, json={"choice": "cancel"}), "invalid_request", 400)
    stale = governor.cli("escalations", "decide", asked["escalation"], "cancel", "--version", "1", check=False)
    assert stale.returncode == 1 and "changed since" in stale.stderr
    assert len(governor.escalations()) == 1, "it is still open"


def test_an_undecided_question_runs_out_and_says_that_it_is_unknown(provider, start):
    governor = start(escalation={"expires": "2s"})
    asked = uncertain(provider, governor)
    action = until("it to run out", lambda: (a := governor.action(asked["action"]))["final"] and a)
    assert action["state"] == "abandoned_unknown"
    assert not governor.escalations()
    late = governor.door.post(f"/api/v1/escalations/{asked['escalation']}/decide", json={"choice": "it_happened"})
    problem(late, "conflict", 409)
    assert provider.ledger().arrived == 1


def test_a_question_stays_open_over_a_restart(provider, start):
    governor = start()
    asked = uncertain(provider, governor)
    governor.kill()
    governor.start()
    question = governor.escalation()
    assert question["escalation"] == asked["escalation"]
    governor.cli("escalations", "decide", asked["escalation"], "it_happened")
    until("it to end", lambda: governor.action(asked["action"])["state"] == "succeeded")
    governor.kill()
    governor.start()
    assert not governor.escalations()
    assert governor.action(asked["action"])["state"] == "succeeded"
    assert provider.ledger().arrived == 1
    governor.chain_holds()


def test_a_look_alike_of_an_uncertain_write_is_held_off(provider, start):
    governor = start()
    asked = uncertain(provider, governor)
    with governor.agent("billing") as agent:
        same = agent.post("/invites", json={"to": "someone"})
        problem(same, "lookalike_held", 424)
        other = agent.post("/invites", json={"to": "someone else"})
        assert other.status_code == 201
        governor.cli("escalations", "decide", asked["escalation"], "it_did_not")
        until("the first to end", lambda: governor.action(asked["action"])["final"])
        assert agent.post("/invites", json={"to": "someone"}).status_code == 201
    assert provider.ledger().arrived == 3
