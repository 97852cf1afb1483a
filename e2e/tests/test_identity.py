"""What passes through is identical to a direct call, byte for byte (Must show 1, R-UX-2).

The same request goes straight to the provider and through the governor, over raw
sockets. Status line, names (case included), order and values of the fields and the
bytes of the body must agree, but for what is documented: `rategov-*`, `link` and
`x-should-retry` are added, and the provider itself makes up a date and a request id
for each answer.
"""

import gzip
import hashlib
import json
import os

import pytest

from rig import config
from rig.raw import Wire, ask, head_of

MADE_UP = {"date", "x-request-id"}
KEY = ("Authorization", "Bearer sk-own-1")
JSON = ("Content-Type", "application/json")
MB = 1 << 20


def is_added(name):
    return name.lower().startswith("rategov-") or name.lower() in ("link", "x-should-retry")


def comparable(answer):
    """An answer without what may differ: names stay, made-up values go, additions go."""
    fields = [
        (name, "…" if name.lower() in MADE_UP else value)
        for name, value in answer.fields
        if not is_added(name)
    ]
    return answer.status_line, fields, answer.body, answer.framing


class Pair:
    """The same call at both doors."""

    def __init__(self, provider, governor):
        self.provider = provider
        self.doors = [
            (provider.host, provider.port, ""),
            (governor.host, governor.port, "/billing"),
        ]

    def ask(self, method, target, fields=(), body=None, step=None):
        answers = []
        for host, port, prefix in self.doors:
            if step:
                self.provider.script(step)
            answers.append(ask(host, port, method, prefix + target, fields, body))
        return answers

    def same(self, method, target, fields=(), body=None, step=None):
        """Asks at both doors; fails where the answers differ. Returns the governor's."""
        direct, governed = self.ask(method, target, fields, body, step)
        assert comparable(governed) == comparable(direct)
        added = {name for name, _ in governed.fields if is_added(name)}
        assert {"rategov-source", "rategov-action"} <= added
        assert governed.get("rategov-source") == "upstream"
        return governed


@pytest.fixture
def pair(provider, new_governor):
    # Without a configured credential the caller's own passes through.
    settings = config.billing(provider, account={"credential": "pass-through"})
    settings["providers"]["billing"]["endpoints"].append(
        {"match": "POST /v1/chat/completions", "class": "generation"}
    )
    return Pair(provider, new_governor(settings))


def chat(stream):
    ask_for = {"model": "m", "messages": [{"role": "user", "content": "naïve"}], "stream": stream}
    return json.dumps(ask_for).encode()


def test_plain_answers_are_identical(pair):
    pair.same("POST", "/v1/chat/completions", [KEY, JSON], chat(False))
    pair.same("GET", "/records?limit=2&after=rec_1", [KEY])
    pair.same("GET", "/records/none", [KEY])
    created = pair.same("POST", "/other", [KEY, JSON], b'{"a": 1}', step={"status": 201, "body": {"a": 1}})
    assert created.status == 201


def test_event_streams_are_identical(pair):
    answer = pair.same("POST", "/v1/chat/completions", [KEY, JSON], chat(True))
    assert answer.body.count(b"data: ") > 3 and answer.body.endswith(b"data: [DONE]\n\n")
    assert answer.framing == "chunked"


def test_gzip_coded_answers_and_streams_stay_coded(pair):
    plain = pair.same(
        "POST", "/v1/chat/completions", [KEY, JSON, ("Accept-Encoding", "gzip")], chat(False), {"gzip": True}
    )
    assert plain.get("content-encoding") == "gzip"
    assert json.loads(gzip.decompress(plain.body))["object"] == "chat.completion"
    stream = pair.same("POST", "/v1/chat/completions", [KEY, JSON], chat(True), {"gzip": True})
    assert stream.get("content-encoding") == "gzip"
    assert b"[DONE]" in gzip.decompress(stream.body)


@pytest.mark.parametrize("target", ["/records", "/records/none", "/echo"])
def test_the_answer_to_head_keeps_its_fields_and_has_no_body(pair, target):
    answer = pair.same("HEAD", target, [KEY])
    assert answer.body == b""


@pytest.mark.parametrize("status", [204, 304])
def test_answers_that_have_no_body_are_identical(pair, status):
    step = {"status": status, "headers": {"ETag": '"7"', "Cache-Control": "max-age=0"}, "body": ""}
    pair.same("GET", "/page", [KEY, ("If-None-Match", '"7"')], step=step)


def test_unusual_statuses_fields_and_their_case_pass(pair):
    step = {
        "status": 299,
        "headers": {
            "X-Odd!#$%&'*+.^_`|~Name": "a  b\tc",
            "x-UPPER-lower": "",
            "Set-Cookie": ["a=1; Path=/", "b=2"],
            "X-Latin": "caf\u00e9",
            "WWW-Authenticate": 'Basic realm="x", Digest a=b',
            "Retry-After": "0",
        },
        "body": "text",
    }
    answer = pair.same("GET", "/odd", [KEY], step=step)
    assert answer.status == 299
    assert [v for n, v in answer.fields if n == "Set-Cookie"] == ["a=1; Path=/", "b=2"]


@pytest.mark.parametrize("status", [301, 307, 400, 401, 403, 404, 422, 451])
def test_definite_answers_of_the_provider_pass_unchanged(pair, status):
    step = {"status": status, "headers": {"Location": "/elsewhere"}, "body": {"error": {"code": "no"}}}
    answer = pair.same("POST", "/other", [KEY, JSON], b"{}", step)
    assert answer.status == status


def test_every_method_passes(pair):
    for method in ["PUT", "PATCH", "DELETE", "OPTIONS", "PURGE", "PROPFIND"]:
        body = b"{}" if method in ("PUT", "PATCH") else None
        direct, governed = pair.ask(method, "/thing", [KEY], body)
        assert direct.status_line == governed.status_line, method
        assert governed.get("rategov-source") == "upstream"
        last = pair.provider.ledger().arrivals[-1]
        assert (last["method"], last["target"]) == (method, "/thing")


def test_a_request_arrives_as_it_was_sent(pair):
    fields = [
        KEY,
        JSON,
        ("X-Odd_Name", "A  b"),
        ("x-lower", ""),
        ("X-Twice", "1"),
        ("Accept", "application/json, */*;q=0.1"),
        ("User-Agent", "agent/1.0 (test)"),
        ("x-TWICE", "2"),
        ("Cookie", "session=1"),
    ]
    target = "/echo/a%2Fb//c/;p=1?x=%7e&&y=/?&z="
    direct, governed = pair.ask("POST", target, fields, b'{"caf\xc3\xa9": 1}')
    direct, governed = json.loads(direct.body), json.loads(governed.body)
    arrived = dict(governed)
    for said in (direct, governed):
        said["headers"] = [h for h in said["headers"] if h[0].lower() != "host"]
    # Fields of one name come out side by side; nothing else moves.
    twice = [h for h in direct["headers"] if h[0].lower() == "x-twice"]
    at = direct["headers"].index(["X-Twice", "1"])
    direct["headers"] = [h for h in direct["headers"] if h not in twice]
    direct["headers"][at:at] = twice
    lower = lambda said: [[n.lower(), v] for n, v in said["headers"]]  # noqa: E731
    assert lower(governed) == lower(direct)
    names = [n for n, _ in governed["headers"]]
    assert [n for n in names if n.lower() != "x-twice"] == [
        n for n, _ in direct["headers"] if n.lower() != "x-twice"
    ], "names keep their case"
    for same in ("method", "target", "body_sha256", "body_bytes"):
        assert arrived[same] == direct[same]


def test_large_bodies_pass_both_ways(pair):
    body = os.urandom(20 * MB)
    direct, governed = pair.ask("POST", "/echo", [KEY, ("Content-Type", "application/octet-stream")], body)
    assert json.loads(governed.body)["body_sha256"] == hashlib.sha256(body).hexdigest()
    assert json.loads(governed.body)["body_bytes"] == 20 * MB
    assert comparable(governed)[0] == comparable(direct)[0]
    record = json.dumps({"text": "".join(f"{n:08d}" for n in range(20 * MB // 8))}).encode()
    host, port, prefix = pair.doors[1]
    fields = [KEY, JSON, ("Idempotency-Key", "large-1")]
    created = ask(host, port, "POST", f"{prefix}/records", fields, record)
    assert created.status == 201
    read = pair.same("GET", f"/records/{json.loads(created.body)['id']}", [KEY])
    assert len(read.body) > 20 * MB and read.body == created.body


def test_a_chunked_upload_arrives_whole(pair):
    pieces = [b"x" * 10, b"y" * 70_000, b"z"]
    sums = []
    for host, port, prefix in pair.doors:
        with Wire(host, port) as wire:
            fields = [("Host", "x"), KEY, ("Transfer-Encoding", "chunked")]
            wire.send(head_of("POST", f"{prefix}/echo", fields))
            for piece in pieces:
                wire.send(b"%x;ext=1\r\n%s\r\n" % (len(piece), piece))
            wire.send(b"0\r\n\r\n")
            sums.append(json.loads(wire.answer("POST").body)["body_sha256"])
    assert sums == [hashlib.sha256(b"".join(pieces)).hexdigest()] * 2


def test_chunked_answers_and_those_that_end_with_the_connection_are_identical(pair):
    pair.same("POST", "/v1/chat/completions", [KEY, JSON], chat(True), {"gzip": False, "sse": True})
    direct, governed = pair.ask("GET", "/slow", [KEY], step={"fault": "slow_body", "pieces": 4, "pause_ms": 20})
    assert comparable(direct) == comparable(governed)


def test_a_connection_serves_many_calls(pair):
    for host, port, prefix in pair.doors:
        with Wire(host, port) as wire:
            for n in range(20):
                wire.send(head_of("GET", f"{prefix}/records?limit={n + 1}", [("Host", "x"), KEY]))
                assert wire.answer().status == 200


def test_an_upload_that_expects_a_go_ahead_gets_through(pair):
    host, port, prefix = pair.doors[1]
    with Wire(host, port) as wire:
        fields = [("Host", "x"), KEY, ("Content-Length", "4"), ("Expect", "100-continue")]
        wire.send(head_of("POST", f"{prefix}/echo", fields))
        status_line, _ = wire.head()
        assert status_line.startswith("HTTP/1.1 100")
        wire.send(b"body")
        answer = wire.answer("POST")
    assert json.loads(answer.body)["body_bytes"] == 4
