"""Actions over time: keys, repeats, stored results, waiting and cancelling (R-IDEM, R-RETRY-5, R-SCHED-6)."""

import json

import pytest

from rig import config
from rig.problem import problem
from rig.until import Calls, at_once, until


@pytest.fixture
def governor(provider, new_governor):
    return new_governor(config.billing(provider), env=config.SECRETS)


def create(governor, key, body=None, **headers):
    headers = {"Idempotency-Key": key, **headers}
    with governor.agent("billing", **headers) as agent:
        return agent.post("/records", json=body or {"name": key})


def own(governor, path):
    with governor.agent() as agent:
        return agent.get(path)


def test_a_key_that_comes_back_with_another_payload_is_refused(provider, governor):
    assert create(governor, "k-1", {"amount": 10}).status_code == 201
    problem(create(governor, "k-1", {"amount": 11}), "key_reused", 422)
    with governor.agent("billing", **{"Idempotency-Key": "k-1"}) as agent:
        problem(agent.post("/jobs", json={"amount": 10}), "key_reused", 422)
    governor.kill()
    governor.start()
    problem(create(governor, "k-1", {"amount": 11}), "key_reused", 422)
    ledger = provider.ledger()
    assert ledger.arrived == 1 and len(ledger.effects) == 1


def test_a_repeat_gets_the_stored_result_also_after_a_restart(provider, governor):
    first = create(governor, "k-1")
    assert first.status_code == 201

    def check_same(again):
        assert (again.status_code, again.content) == (first.status_code, first.content)
        assert again.headers["location"] == first.headers["location"]
        assert again.headers["rategov-action"] == first.headers["rategov-action"]

    check_same(create(governor, "k-1"))
    for end in (governor.kill, governor.stop):
        end()
        governor.start()
        check_same(create(governor, "k-1"))
        stored = own(governor, f"/actions/{first.headers['rategov-action']}/result")
        assert (stored.status_code, stored.content) == (201, first.content)
    assert provider.ledger().arrived == 1


def test_repeats_of_a_running_write_join_it(provider, governor):
    provider.script({"calls": "POST /records", "hold": True})
    calls = Calls()
    calls.go(create, governor, "k-1")
    provider.wait_for(arrivals=1)
    for _ in range(5):
        calls.go(create, governor, "k-1")
    joined = lambda: sum("joined" in line for line in governor.audit()) == 5  # noqa: E731
    until("the repeats to join", joined)
    provider.release()
    answers = calls.all()
    assert {(a.status_code, a.content) for a in answers} == {(201, answers[0].content)}
    assert len({a.headers["rategov-action"] for a in answers}) == 1
    ledger = provider.ledger()
    assert ledger.arrived == 1 and len(ledger.effects) == 1
    governor.until_idle()


def test_equal_writes_without_a_key_are_separate_and_each_gets_one(provider, governor):
    with governor.agent("billing") as agent:
        answers = at_once([lambda: agent.post("/records", json={"same": 1})] * 3)
    assert [a.status_code for a in answers] == [201] * 3
    ledger = provider.ledger()
    keys = {a["key"] for a in ledger.arrivals}
    assert len(keys) == 3 and None not in keys, "an endpoint that honours keys gets one"
    assert len(ledger.effects) == 3


def test_a_key_survives_refusals_of_the_write(provider, governor):
    provider.script({"calls": "POST /records", "status": 503, "headers": {"retry-after": "1"}})
    provider.script({"calls": "POST /records", "fault": "reset_before_effect"})
    answer = create(governor, "k-1")
    assert answer.status_code == 201
    ledger = provider.ledger()
    assert {a["key"] for a in ledger.of(method="POST")} == {"k-1"}
    assert len(ledger.effects) == 1
    digests = {a["body_sha256"] for a in ledger.of(method="POST")}
    assert len(digests) == 1, "bytes under a key never change"


def test_respond_async_answers_at_once_and_the_result_is_fetched(provider, new_governor):
    governor = new_governor(
        config.billing(provider, shared_scope={"max_concurrent_requests": 1}), env=config.SECRETS
    )
    provider.script({"calls": "GET /records", "hold": True})
    calls = Calls()
    with governor.agent("billing") as agent:
        calls.go(agent.get, "/records")
        provider.wait_for(arrivals=1)
        pending = agent.post(
            "/records", json={"name": "later"}, headers={"Prefer": "respond-async", "Idempotency-Key": "async-1"}
        )
        body = problem(pending, "pending", 202)
        assert own(governor, f"/actions/{body['action']}").json()["state"] == "admitted"
        open_yet = own(governor, "/actions/async-1/result")
        problem(open_yet, "still_open", 424)
        provider.release()
        calls.all()
        until("it to end", lambda: own(governor, "/actions/async-1").json()["final"])
        result = own(governor, "/actions/async-1/result")
    assert result.status_code == 201 and result.json()["name"] == "later"
    assert own(governor, "/actions/async-1").json()["terminal"]["next"] == "use_result"
    governor.until_idle()


def test_an_async_call_is_also_answered_while_it_is_on_the_wire(provider, governor):
    provider.script({"calls": "POST /records", "hold": True})
    pending = create(governor, "async-2", **{"Prefer": "respond-async, wait=1"})
    problem(pending, "pending", 202)
    provider.release()
    until("it to end", lambda: own(governor, "/actions/async-2").json()["final"])
    assert own(governor, "/actions/async-2/result").status_code == 201
    assert provider.ledger().arrived == 1


def test_a_caller_says_how_long_it_is_ready_to_be_held(provider, governor):
    provider.script({"calls": "GET /records", "status": 429, "headers": {"retry-after": "30"}})
    with governor.agent("billing", Prefer="wait=1") as agent:
        refused = agent.get("/records")
        assert refused.status_code == 429
        assert 29 <= int(refused.headers["retry-after"]) <= 30, "the wait is handed back whole"
        # Never sent, so the refusal is the governor's own, with the time.
        waiting = agent.get("/records/rec_1")
    body = problem(waiting, "hold_exceeded", 429)
    assert 20 <= body["retry_after_seconds"] <= 60, "when its own turn comes"
    assert waiting.headers["retry-after"] == str(body["retry_after_seconds"])
    assert waiting.headers["x-should-retry"] == "true"
    assert body["scope"] == "account:ops" and body["sent"] is False
    assert provider.ledger().arrived == 1
    governor.until_idle()


def test_a_sent_write_goes_on_when_its_hold_is_over(provider, governor):
    provider.script({"calls": "POST /records", "hold": True})
    answer = create(governor, "slow-1", Prefer="wait=1")
    body = problem(answer, "still_open", 424)
    assert body["sent"] is True
    provider.release()
    until("it to end", lambda: own(governor, "/actions/slow-1").json()["final"])
    assert own(governor, "/actions/slow-1/result").json()["name"] == "slow-1"
    assert create(governor, "slow-1").status_code == 201, "the same call again takes the stored result"
    assert provider.ledger().arrived == 1


def test_a_deadline_that_passes_ends_what_was_never_sent(provider, governor):
    provider.script({"calls": "GET /records", "status": 429, "headers": {"retry-after": "30"}})
    with governor.agent("billing", Prefer="wait=1") as agent:
        agent.get("/records")
    with governor.agent("billing", **{"Rategov-Deadline": "1.5"}) as agent:
        late = agent.get("/records")
    assert late.status_code in (424, 429)
    assert late.json()["code"] in ("deadline_passed", "hold_exceeded")
    assert provider.ledger().arrived == 1
    governor.until_idle()


def test_cancelling_a_task_under_load_stops_it_for_good_and_nothing_else(provider, new_governor):
    quotas = [{"scope": "account", "dimension": "requests", "limit": 10, "window": "5s", "kind": "sliding"}]
    governor = new_governor(config.billing(provider, account={"quotas": quotas}), env=config.SECRETS)
    agent = governor.agent("billing")

    def read(task, n):
        return agent.get(f"/records?of={task}&n={n}", headers={"Rategov-Task": task})

    calls = Calls()
    for n in range(60):
        calls.go(read, "doomed", n)
    for n in range(10):
        calls.go(read, "kept", n)
    until("a queue", lambda: len(governor.api("queue")["queue"]) >= 40, within=30)
    assert agent.delete(f"{governor.agents}/governor/v1/tasks/doomed").status_code == 202
    known = provider.ledger().arrived
    answers = calls.all(within=90)
    doomed, kept = answers[:60], answers[60:]
    assert [a.status_code for a in kept] == [200] * 10
    stopped = [a for a in doomed if a.status_code == 410]
    assert len(stopped) + sum(a.status_code == 200 for a in doomed) == 60
    for answer in stopped:
        assert problem(answer, "cancelled", 410)["state"] == "cancelled_not_sent"
    ledger = provider.ledger()
    sent = ledger.of(target="/records?of=doomed")
    assert len(sent) == 60 - len(stopped)
    assert all(a["no"] <= known + 1 for a in sent), "nothing of it is sent after its end"
    assert not governor.api("queue")["queue"]
    tasks = {t["task"]: t["state"] for t in governor.api("tasks")["tasks"]}
    assert tasks["doomed"] == "cancelled" and tasks["kept"] == "open"
    governor.until_idle()


def test_one_action_can_be_cancelled_by_its_agent(provider, governor):
    provider.script({"calls": "GET /records", "status": 429, "headers": {"retry-after": "30"}})
    calls = Calls()
    with governor.agent("billing") as agent:
        calls.go(agent.get, "/records")
        waiting = until("it to wait", lambda: governor.api("queue")["queue"])[0]
        cancelled = agent.delete(f"{governor.agents}/governor/v1/actions/{waiting['action']}")
        assert cancelled.status_code == 202
        gone = calls.all()[0]
        assert gone.status_code == 410 and gone.json()["code"] == "cancelled"
    assert not governor.api("queue")["queue"]
    assert provider.ledger().arrived == 1


def test_every_wait_is_explained(provider, governor):
    provider.script({"calls": "GET /records", "status": 429, "headers": {"retry-after": "5"}})
    calls = Calls()
    with governor.agent("billing", **{"Rategov-Priority": "background"}) as agent:
        calls.go(agent.get, "/records")
        row = until("it to wait", lambda: governor.api("queue")["queue"])[0]
        assert row["priority"] == "background" and row["scope"] == "account:ops"
        assert row["reason"] and row["expected_start"]
        why = governor.cli("why", row["action"]).stdout
        assert "account:ops" in why and "waiting" in why
        assert row["action"] in governor.cli("status").stdout
        answer = calls.all()[0]
    assert answer.status_code == 200
    assert 5_000 <= int(answer.headers["rategov-waited-ms"]) < 30_000
    assert answer.headers["rategov-reason"]


def test_a_stream_that_breaks_is_reported_and_not_sent_again(provider, new_governor):
    governor = new_governor(config.pass_through(provider))
    ask = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": True}
    provider.script({"calls": "POST /v1/chat/completions", "fault": "stream_cut", "after": 3})
    with governor.agent("openai", Authorization="Bearer sk-own") as agent:
        with pytest.raises(Exception) as broken, agent.stream("POST", "/v1/chat/completions", json=ask) as answer:
            assert answer.status_code == 200
            seen = b"".join(answer.iter_raw())
            raise AssertionError(f"it looked whole: {seen!r}")
        assert "it looked whole" not in str(broken.value)
    assert provider.ledger().arrived == 1
    until("it to end", lambda: governor.actions()[0]["final"])
    assert governor.actions()[0]["code"] == "stream_broken"
    governor.until_idle()


def test_an_error_before_the_first_event_is_absorbed(provider, new_governor):
    governor = new_governor(config.pass_through(provider))
    ask = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}], "stream": True}
    provider.script({"calls": "POST /v1/messages", "status": 200, "sse": True, "events": ["error overloaded_error"]})
    with governor.agent("anthropic", **{"x-api-key": "sk-ant-own"}) as agent:
        answer = agent.post("/v1/messages", json=ask)
    assert answer.status_code == 200 and b"message_stop" in answer.content
    assert b"overloaded" not in answer.content
    assert provider.ledger().arrived == 2
    assert json.loads(json.dumps(dict(answer.headers)))["rategov-attempts"] == "2"
