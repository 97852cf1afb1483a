"""Agents can't reach what belongs to operators, nor what belongs to other agents
(Must show 8, R-VAULT-4)."""

import os
import stat

import httpx
import pytest

from rig import config
from rig.problem import problem
from rig.raw import ask


@pytest.fixture
def governor(provider, new_governor):
    settings = config.with_agents(provider)
    settings["providers"].update(config.billing(provider)["providers"])
    return new_governor(settings, env=config.SECRETS)


def operators(governor, *fields, target="/api/v1/status", method="GET", host=None):
    """A request at the operators' listener, with `Host` as given."""
    fields = [("Host", host or f"127.0.0.1:{governor.operators_port}"), *fields]
    with_host = [f for f in fields if f[1] is not None]
    from rig.raw import Wire, head_of

    with Wire("127.0.0.1", governor.operators_port) as wire:
        wire.send(head_of(method, target, with_host))
        return wire.answer(method)


def test_loopback_alone_proves_nothing(governor):
    problem(operators(governor), "unauthenticated", 401)
    problem(operators(governor, target="/api/v1/escalations/x/decide", method="POST"), "unauthenticated", 401)
    for target in ("/api/v1/policy", "/api/v1/journal", "/api/v1/nothing"):
        problem(operators(governor, target=target), "unauthenticated", 401)


@pytest.mark.parametrize("token", ["desk", "worker"])
def test_an_agents_token_is_no_operators_token(governor, token):
    bearer = ("Authorization", f"Bearer {config.TOKENS[token]}")
    problem(operators(governor, bearer), "unauthenticated", 401)
    problem(operators(governor, ("X-Api-Key", config.TOKENS[token])), "unauthenticated", 401)


def test_a_runs_token_is_no_operators_token(governor):
    run = governor.api("runs", {"agent": "desk"})
    url = next(v for v in run["variables"].values() if "/run/" in v)
    token = url.split("/run/")[1].split("/")[0]
    problem(operators(governor, ("Authorization", f"Bearer {token}")), "unauthenticated", 401)
    # Nor does a run's door lead to the operators' API.
    answer = ask(governor.host, governor.port, "GET", f"/run/{token}/api/v1/status")
    problem(answer, "unknown_provider", 404)


def test_the_right_token_from_a_wrong_place_is_refused(governor):
    bearer = ("Authorization", f"Bearer {governor.token}")
    assert operators(governor, bearer).status == 200
    port = governor.operators_port
    for host in ("evil.example", f"evil.example:{port}", f"127.0.0.1:{governor.port}", "127.0.0.1"):
        problem(operators(governor, bearer, host=host), "wrong_host", 403)
    for origin in ("http://evil.example", "null", governor.agents, f"http://evil.example:{port}"):
        problem(operators(governor, bearer, ("Origin", origin)), "wrong_host", 403)
    problem(operators(governor, bearer, ("Sec-Fetch-Site", "cross-site")), "wrong_host", 403)
    assert operators(governor, bearer, ("Origin", f"http://127.0.0.1:{port}")).status == 200
    assert operators(governor, bearer, host=f"localhost:{port}").status == 200
    # Metrics need no token on loopback, but a page that rebinds DNS doesn't read them.
    assert operators(governor, target="/metrics").status == 200
    problem(operators(governor, target="/metrics", host="evil.example"), "wrong_host", 403)


def test_the_agents_listener_has_no_operators_api(governor):
    for token in (governor.token, config.TOKENS["desk"]):
        fields = [("Authorization", f"Bearer {token}")]
        for target in ("/api/v1/status", "/metrics", "/api/v1/escalations"):
            answer = ask(governor.host, governor.port, "GET", target, fields)
            expected = "unauthenticated" if token == governor.token else "unknown_provider"
            problem(answer, expected)


def test_an_agent_can_not_call_without_its_token_and_only_what_it_may(provider, new_governor):
    settings = config.with_agents(provider)
    settings["providers"].update(config.billing(provider)["providers"])
    settings["agents"]["desk"]["accounts"] = ["billing/*"]
    settings["agents"]["worker"]["classes"] = ["read"]
    governor = new_governor(settings, env=config.SECRETS)
    none = httpx.get(governor.url("billing", "/records"))
    problem(none, "unauthenticated", 401)
    assert none.headers["www-authenticate"].startswith("Bearer")
    wrong = httpx.get(governor.url("billing", "/records"), headers={"X-Api-Key": "guess"})
    problem(wrong, "unauthenticated", 401)
    with governor.agent("openai", Authorization=f"Bearer {config.TOKENS['desk']}") as desk:
        problem(desk.get("/v1/models"), "forbidden", 403)
    with governor.agent("billing", Authorization=f"Bearer {config.TOKENS['worker']}") as worker:
        problem(worker.post("/records", json={}), "forbidden", 403)
        assert worker.get("/records").status_code == 200
    assert provider.ledger().arrived == 1


def test_agents_see_only_their_own_actions_and_tasks(provider, governor):
    def client(name):
        return governor.agent(
            "billing", **{"Authorization": f"Bearer {config.TOKENS[name]}", "Rategov-Task": "secret-task"}
        )

    with client("desk") as desk, client("worker") as worker:
        answer = desk.post("/records", json={"a": 1}, headers={"Idempotency-Key": "desk-1"})
        action = answer.headers["rategov-action"]
        mine = f"{governor.agents}/governor/v1/actions/{action}"
        assert desk.get(mine).status_code == 200
        assert desk.get(f"{governor.agents}/governor/v1/actions/desk-1").json()["action"] == action
        for path in (mine, f"{mine}/result", f"{governor.agents}/governor/v1/actions/desk-1"):
            problem(worker.get(path), "not_found", 404)
        problem(worker.delete(mine), "not_found", 404)
        assert desk.get(f"{governor.agents}/governor/v1/tasks/secret-task").status_code == 200
        problem(worker.get(f"{governor.agents}/governor/v1/tasks/secret-task"), "not_found", 404)
        # Ending a task of that name ends the caller's own.
        worker.delete(f"{governor.agents}/governor/v1/tasks/secret-task")
        assert desk.get("/records").status_code == 200
    assert provider.ledger().arrived == 2


def test_another_agents_key_gives_no_result_away(provider, governor):
    def create(name):
        headers = {"Authorization": f"Bearer {config.TOKENS[name]}", "Idempotency-Key": "shared-key"}
        with governor.agent("billing", **headers) as agent:
            return agent.post("/records", json={"a": 1})

    assert create("desk").status_code == 201
    problem(create("worker"), "key_reused", 422)
    governor.kill()
    governor.start()
    problem(create("worker"), "key_reused", 422)
    assert provider.ledger().arrived == 1


def test_the_token_file_is_for_its_owner_alone(governor):
    file = governor.data / "operator-token"
    assert stat.S_IMODE(os.stat(file).st_mode) == 0o600
    assert file.read_text().strip() == governor.token
    shown = governor.cli("--json", "status", env={"RATEGOV_OPERATOR_TOKEN": "wrong"}, check=False)
    assert shown.returncode == 1 and governor.token not in shown.stdout + shown.stderr
