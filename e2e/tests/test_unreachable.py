"""An upstream that can't be reached or not be trusted: clear, and certain that nothing was sent."""

import http.server
import socket
import ssl
import threading

import pytest
import trustme

from rig import config
from rig.problem import problem

FEW = {
    "request_classes": {
        "read": {"max_attempts": 2, "max_wait_seconds": 5, "retry_statuses": [503]},
        "idempotent_write": {"max_attempts": 2, "max_wait_seconds": 5, "retry_statuses": [503]},
    },
    "backoff": {"base": "250ms", "cap": "500ms", "minimum": "250ms"},
}


class Elsewhere:
    """Where a configuration leads instead of to the provider."""

    def __init__(self, url):
        self.url = url


def closed_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@pytest.fixture
def tls_server(request):
    """An HTTPS server whose certificate is signed by an authority of its own, by default
    for the name under which it is called."""
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(getattr(request, "param", "localhost")).configure_cert(context)

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            served.append(self.path)
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, *_):
            pass

    served = []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield authority, server.server_address[1], served
    server.shutdown()
    server.server_close()


@pytest.fixture
def trusting(tls_server, tmp_path):
    """The environment of a governor that trusts the server's authority."""
    tls_server[0].cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    return {**config.SECRETS, "RATEGOV_EXTRA_CA": str(tmp_path / "ca.pem")}


def ask_all(governor):
    """A read and two kinds of write; returns the answers."""
    with governor.agent("billing") as agent:
        return [
            agent.get("/records"),
            agent.post("/records", json={"a": 1}),
            agent.post("/invites", json={"a": 1}),
        ]


def check_nothing_was_sent(governor, code):
    for answer in ask_all(governor):
        body = problem(answer, code, 502)
        assert body["action"] == answer.headers["rategov-action"]
        assert governor.action(body["action"])["state"] == "failed_definite"
        assert governor.action(body["action"])["maybe_arrived"] is False
    assert not governor.escalations(), "nobody is asked about what never left"
    governor.until_idle()


def test_a_closed_port_is_certainly_not_sent(new_governor):
    where = Elsewhere(f"http://127.0.0.1:{closed_port()}")
    governor = new_governor(config.billing(where, **FEW), env=config.SECRETS)
    check_nothing_was_sent(governor, "upstream_unreachable")


def test_a_name_that_does_not_resolve_is_certainly_not_sent(new_governor):
    where = Elsewhere("https://no-such-host.invalid")
    governor = new_governor(config.billing(where, **FEW), env=config.SECRETS)
    check_nothing_was_sent(governor, "upstream_unreachable")


def test_a_certificate_of_a_stranger_is_refused(new_governor, tls_server):
    _, port, served = tls_server
    governor = new_governor(config.billing(Elsewhere(f"https://localhost:{port}"), **FEW), env=config.SECRETS)
    check_nothing_was_sent(governor, "upstream_certificate")
    assert served == []


@pytest.mark.parametrize("tls_server", ["elsewhere.example"], indirect=True)
def test_a_certificate_for_another_name_is_refused(new_governor, tls_server, trusting):
    _, port, served = tls_server
    where = Elsewhere(f"https://localhost:{port}")
    governor = new_governor(config.billing(where, **FEW), env=trusting)
    check_nothing_was_sent(governor, "upstream_certificate")
    assert served == []


def test_an_authority_that_the_operator_trusts_is_trusted(new_governor, tls_server, trusting):
    _, port, served = tls_server
    where = Elsewhere(f"https://localhost:{port}")
    governor = new_governor(config.billing(where), env=trusting)
    with governor.agent("billing") as agent:
        answer = agent.get("/records")
    assert (answer.status_code, answer.text) == (200, "ok")
    assert served == ["/records"]


def test_a_server_that_speaks_no_tls_is_certainly_not_sent(provider, new_governor):
    where = Elsewhere(f"https://localhost:{provider.port}")
    governor = new_governor(config.billing(where, **FEW), env=config.SECRETS)
    check_nothing_was_sent(governor, "upstream_unreachable")
    assert provider.ledger().arrived == 0


def test_a_refused_connection_is_tried_again_also_for_a_write(provider, new_governor):
    governor = new_governor(config.billing(provider, backoff=FEW["backoff"]), env=config.SECRETS)
    provider.script(refuse_ms=300)
    with governor.agent("billing", **{"Idempotency-Key": "late-1"}) as agent:
        answer = agent.post("/records", json={"a": 1})
    assert answer.status_code == 201
    ledger = provider.ledger()
    assert ledger.arrived == 1 and len(ledger.effects) == 1
    governor.until_idle()
