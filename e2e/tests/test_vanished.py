"""A client that vanishes at any stage leaves no slot taken (Must show 8, R-SCHED-6)."""

import json

import pytest

from rig import config
from rig.problem import problem
from rig.raw import Wire, head_of
from rig.until import until

HOST = ("Host", "127.0.0.1")
WHOLE = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": True}


@pytest.fixture
def governor(provider, new_governor):
    settings = config.billing(
        provider,
        {"match": "POST /v1/chat/completions", "class": "generation"},
        shared_scope={"max_concurrent_requests": 1},
        client_stall="2s",
    )
    return new_governor(settings, env=config.SECRETS)


@pytest.fixture
def wire(governor):
    with Wire(governor.host, governor.port) as opened:
        yield opened


@pytest.mark.parametrize(
    "part",
    [
        b"GET /billing/reco",
        head_of("GET", "/billing/records", [HOST])[:-2],
        head_of("POST", "/billing/records", [HOST, ("Content-Length", "10")]) + b"half",
        head_of("POST", "/billing/records", [HOST, ("Transfer-Encoding", "chunked")]) + b"5\r\nab",
    ],
    ids=["in-the-request-line", "in-the-head", "in-the-body", "in-a-chunk"],
)
@pytest.mark.parametrize("how", ["fin", "rst"])
def test_a_request_that_breaks_off_is_not_sent(provider, governor, wire, part, how):
    wire.send(part)
    if how == "rst":
        wire.reset()
    else:
        wire.socket.shutdown(1)
        assert b"body_cut" in (rest := wire.until_closed()) or not rest or b"bad_header" in rest
    governor.until_idle()
    assert provider.ledger().arrived == 0


def test_a_body_that_stalls_is_given_up(provider, governor, wire):
    wire.send(head_of("POST", "/billing/records", [HOST, ("Content-Length", "10")]) + b"half")
    problem(wire.answer("POST"), "body_cut", 400)
    governor.until_idle()
    assert provider.ledger().arrived == 0


def test_a_call_that_waits_is_withdrawn(provider, governor, wire):
    provider.script({"calls": "GET /records", "hold": True})
    with Wire(governor.host, governor.port) as first:
        first.send(head_of("GET", "/billing/records", [HOST]))
        provider.wait_for(arrivals=1)
        wire.send(head_of("GET", "/billing/records/rec_1", [HOST]))
        until("the second to wait", lambda: governor.api("queue")["queue"])
        wire.reset()
        until("it to be withdrawn", lambda: not governor.api("queue")["queue"])
        provider.release()
        assert first.answer().status == 200
    governor.until_idle()
    assert provider.ledger().arrived == 1, "it was never sent"


def test_a_read_on_the_wire_is_stopped(provider, governor, wire):
    provider.script({"calls": "GET /records", "hold": True})
    wire.send(head_of("GET", "/billing/records", [HOST]))
    provider.wait_for(arrivals=1)
    wire.reset()
    governor.until_idle()
    ended = until("the provider to notice", lambda: provider.ledger().arrivals[0].get("ended"))
    assert ended == "caller_gone"
    # The only seat is free again.
    with governor.agent("billing") as agent:
        assert agent.get("/records").status_code == 200


def test_a_write_on_the_wire_goes_on_and_its_result_is_kept(provider, governor, wire):
    provider.script({"calls": "POST /records", "hold": True})
    body = b'{"name": "once"}'
    fields = [HOST, ("Idempotency-Key", "gone-1"), ("Content-Type", "application/json")]
    wire.send(head_of("POST", "/billing/records", [*fields, ("Content-Length", str(len(body)))]) + body)
    provider.wait_for(arrivals=1)
    wire.reset()
    until("its caller to be noticed as gone", lambda: governor.action("gone-1")["on_the_wire"])
    provider.release()
    until("it to be done", lambda: governor.action("gone-1")["state"] == "succeeded")
    with governor.agent("billing", **{"Idempotency-Key": "gone-1", "Content-Type": "application/json"}) as agent:
        again = agent.post("/records", content=body)
    assert again.status_code == 201 and again.json()["name"] == "once"
    ledger = provider.ledger()
    assert ledger.arrived == 1 and len(ledger.effects) == 1
    governor.until_idle()


def test_a_stream_whose_reader_leaves_is_stopped(provider, governor, wire):
    provider.script({"calls": "POST /v1/chat/completions", "lasts_ms": 60_000})
    body = json.dumps(WHOLE).encode()
    wire.send(head_of("POST", "/billing/v1/chat/completions", [HOST, ("Content-Length", str(len(body)))]) + body)
    status_line, _ = wire.head()
    assert " 200 " in status_line
    wire.reset()
    governor.until_idle()
    ended = until("the provider to notice", lambda: provider.ledger().arrivals[0].get("ended"))
    assert ended == "caller_gone"
    state = governor.actions()[0]
    assert state["final"], state


def test_a_reader_that_reads_nothing_loses_its_slot(provider, governor, wire):
    # More than the sockets' buffers between the two hold.
    size = 14 << 20
    provider.script({"calls": "GET /page", "status": 200, "body": "x" * size})
    wire.send(head_of("GET", "/billing/page", [HOST]))
    provider.wait_for(arrivals=1)
    until("the only seat to be taken", governor.busy)
    governor.until_idle(within=30)
    assert len(wire.until_closed()) < size, "what it did not take is gone"
    with governor.agent("billing") as agent:
        assert agent.get("/records").status_code == 200
