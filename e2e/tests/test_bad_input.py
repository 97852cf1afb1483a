"""Requests that can't be served each get a clear problem answer with a documented code,
leave nothing at the provider, and hold no slot afterwards (Must show 8)."""

import pytest

from rig import config
from rig.problem import problem
from rig.raw import Wire, head_of

HOST = ("Host", "127.0.0.1")
LENGTH = ("Content-Length", "2")


def get(target, *fields):
    return head_of("GET", target, [HOST, *fields])


def post(target, *fields, body=b"{}"):
    return head_of("POST", target, [HOST, *fields]) + body


LONG = "x" * 70_000
# What is sent, its code and its status.
BAD = {
    "an unknown provider": (get("/nobody/v1/models"), "unknown_provider", 404),
    "no provider": (get("/"), "bad_target", 400),
    "an API that does not exist": (get("/governor/v9/x"), "bad_target", 400),
    "nothing of the agents' API": (get("/governor/v1/nothing"), "not_found", 404),
    "a method that is not offered": (
        post("/governor/v1/scopes", LENGTH),
        "method_not_allowed",
        405,
    ),
    "a header beyond what is passed on": (get("/billing/records", ("X-Long", LONG)), "head_too_large", 431),
    "a header beyond what is read": (get("/billing/records", ("X-Long", 5 * LONG)), "head_too_large", 431),
    "too many fields": (
        get("/billing/records", *[(f"X-{n}", "1") for n in range(900)]),
        "head_too_large",
        431,
    ),
    "a target beyond what is passed on": (get("/billing/" + 40_000 * "a"), "bad_target", 400),
    "a control character in a value": (get("/billing/records", ("X-Bad", "a\x01b")), "bad_header", 400),
    "a bare CR in a value": (get("/billing/records", ("X-Bad", "a\rb: c")), "bad_header", 400),
    "a space in a name": (get("/billing/records", ("X Bad", "a")), "bad_header", 400),
    "a rank that does not exist": (get("/billing/records", ("Rategov-Priority", "urgent")), "bad_header", 400),
    "a rank twice": (
        get("/billing/records", ("Rategov-Priority", "normal"), ("Rategov-Priority", "normal")),
        "bad_header",
        400,
    ),
    "a deadline that is none": (get("/billing/records", ("Rategov-Deadline", "soon")), "bad_header", 400),
    "a wait that is none": (get("/billing/records", ("Prefer", "wait=soon")), "bad_header", 400),
    "a task's name that is none": (get("/billing/records", ("Rategov-Task", "a" * 300)), "bad_header", 400),
    "a key that is too long": (
        post("/billing/records", LENGTH, ("Idempotency-Key", "k" * 300)),
        "bad_header",
        400,
    ),
    "two keys": (
        post("/billing/records", LENGTH, ("Idempotency-Key", "a"), ("Idempotency-Key", "b")),
        "bad_header",
        400,
    ),
    "a class that allows more": (
        post("/billing/invites", LENGTH, ("Rategov-Class", "read")),
        "class_loosened",
        400,
    ),
    "two framings": (
        head_of("POST", "/billing/records", [HOST, LENGTH, ("Transfer-Encoding", "chunked")]) + b"0\r\n\r\n",
        "bad_framing",
        400,
    ),
    "two framings, the other way round": (
        head_of("POST", "/billing/records", [HOST, ("Transfer-Encoding", "chunked"), LENGTH]) + b"0\r\n\r\n",
        "bad_framing",
        400,
    ),
    "two lengths": (post("/billing/records", LENGTH, ("Content-Length", "3")), "bad_framing", 400),
    "a length that is none": (post("/billing/records", ("Content-Length", "+2")), "bad_framing", 400),
    "a coding that is not chunked": (
        post("/billing/records", ("Transfer-Encoding", "gzip")),
        "bad_framing",
        400,
    ),
    "chunked twice": (
        post("/billing/records", ("Transfer-Encoding", "chunked, chunked"), body=b"0\r\n\r\n"),
        "bad_framing",
        400,
    ),
    "a fragment in the target": (get("/billing/records#part"), "bad_target", 400),
    "two hosts": (get("/billing/records", HOST), "bad_header", 400),
    "no host": (head_of("GET", "/billing/records", []), "bad_header", 400),
    "another host in the target": (get("http://evil.example/billing/records"), "bad_target", 400),
    "its own host in the target": (get("http://127.0.0.1/billing/records"), "bad_target", 400),
    "a tunnel": (head_of("CONNECT", "evil.example:443", [HOST]), "bad_target", 400),
    "the asterisk": (head_of("OPTIONS", "*", [HOST]), "bad_target", 400),
    "the parent": (get("/billing/../admin"), "bad_target", 400),
    "the parent, hidden": (get("/billing/a/%2e%2E/%2e./admin"), "bad_target", 400),
    "the parent, by backslash": (get("/billing/..%5cadmin"), "bad_target", 400),
    "an echo of the credential": (head_of("TRACE", "/billing/records", [HOST]), "method_not_allowed", 405),
    "another protocol": (
        get("/billing/records", ("Connection", "Upgrade"), ("Upgrade", "websocket")),
        "upgrade_refused",
        426,
    ),
    "what is no HTTP": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 tls?\r\n\r\n", "bad_header", 400),
}


@pytest.fixture(scope="module")
def stand(binary, tmp_path_factory):
    """One provider and one governor for the whole table: what one request leaves behind
    would be seen by the next."""
    from rig.governor import Governor
    from rig.provider import Provider

    folder = tmp_path_factory.mktemp("bad-input")
    provider = Provider(binary, folder)
    governor = Governor(binary, folder, config.billing(provider), env=config.SECRETS)
    yield provider, governor
    governor.kill()
    provider.process.kill()


@pytest.mark.parametrize("what", BAD)
def test_what_can_not_be_served_is_answered_clearly(stand, what):
    provider, governor = stand
    known = provider.ledger().arrived
    data, code, status = BAD[what]
    with Wire(governor.host, governor.port) as wire:
        wire.send(data)
        answer = wire.answer()
    said = problem(answer, code, status)
    if code == "unknown_provider":
        assert "billing" in said["providers"]
    if what.startswith("a rank"):
        assert said["header"] == "Rategov-Priority"
    assert provider.ledger().arrived == known, "nothing of it arrives"
    assert not governor.busy()
    with governor.agent() as agent:
        document = agent.get(f"{governor.agents}{said['type']}")
    assert document.status_code == 200 and code in document.json()["text"]
    explained = governor.cli("explain", code)
    assert explained.stdout.startswith("# ") and code in explained.stdout


def test_a_smuggled_request_is_never_answered(stand):
    provider, governor = stand
    known = provider.ledger().arrived
    inner = get("/billing/records?smuggled=1")
    outer = head_of(
        "POST",
        "/billing/echo",
        [HOST, ("Content-Length", str(5 + len(inner))), ("Transfer-Encoding", "chunked")],
    )
    with Wire(governor.host, governor.port) as wire:
        wire.send(outer + b"0\r\n\r\n" + inner)
        problem(wire.answer(), "bad_framing", 400)
        rest = wire.until_closed()
    assert rest == b"", "the connection ends: what follows can't be told apart"
    assert provider.ledger().arrived == known
