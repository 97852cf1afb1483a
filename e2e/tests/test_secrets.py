"""No secret in any output (invariant 16, R-AUDIT-3): canaries go in as credentials, tokens
and bodies, and must not come out in logs, records, answers, metrics or files, in any encoding.

What may hold one: the operator's token file, the login link that `serve` prints, and the
environment of the program that `exec` starts. Bodies of writes are kept sealed.
"""

import base64
import os
import stat
import sys

import httpx
import pytest

from rig import canary, config
from rig.raw import Wire, head_of
from rig.until import until

# With characters that encodings change.
OWN_KEY = "sk-own/canary+3f9a~51c7=="
WRONG_TOKEN = "rgt-wrong/canary+77d0~9e2b"
QUERY_KEY = "AIza-query-canary-0b1c2d3e4f"
COOKIE = "session-canary-5e6f7a8b9c0d"
READ_BODY = "prompt-canary-1a2b3c4d5e6f"
WRITE_BODY = "payload-canary-6f5e4d3c2b1a"
FILE_KEY = "bk-file/canary+8c7b~6a59=="


def test_the_search_finds_every_form_it_claims_to():
    secret = OWN_KEY
    raw = secret.encode()
    for place in (
        b"x" + raw + b"y",
        b"x" + base64.b64encode(b"a" + raw + b"bc"),
        b"x" + base64.urlsafe_b64encode(b"ab" + raw),
        b"x" + base64.b64encode(b"key=" + raw + b"\n"),
        b"x" + raw.hex().encode(),
        b"x" + raw.hex().upper().encode(),
        b"x" + b"sk-own%2Fcanary%2B3f9a~51c7%3D%3D",
    ):
        assert canary.search(secret, {"place": place}), place
    assert not canary.search(secret, {"place": b"sk-own/canary+3f9a~51c8=="})


@pytest.fixture
def governor(provider, new_governor, tmp_path):
    key_file = tmp_path / "billing.key"
    key_file.write_text(FILE_KEY + "\n")
    settings = config.with_agents(provider)
    settings["providers"].update(
        config.billing(provider, account={"credential": f"file:{key_file}"})["providers"]
    )
    settings["providers"]["gone"] = {
        "base_url": "http://127.0.0.1:1",
        "accounts": {"ops": {"credential": "env:REAL_BILLING"}},
    }
    settings["request_classes"] = {
        "read": {"max_attempts": 2, "max_wait_seconds": 5, "retry_statuses": [429, 503]}
    }
    settings["backoff"] = {"base": "250ms", "cap": "300ms", "minimum": "250ms"}
    return new_governor(settings, env={**config.SECRETS, "RATEGOV_LOG": "trace"})


def exercise(provider, governor):
    """Calls that end in every way. Returns what was answered."""
    token = config.TOKENS["desk"]
    answers = []
    ask = {"model": "m", "messages": [{"role": "user", "content": READ_BODY}]}
    told = {"Authorization": f"Bearer {token}", "Cookie": COOKIE}
    with governor.agent("openai", **told) as agent:
        answers.append(agent.post("/v1/chat/completions", json=ask))
        answers.append(agent.post("/v1/chat/completions", json={**ask, "stream": True}))
        # A provider that repeats the credential in its refusal, and another that does so while
        # it is refused for good.
        provider.script({"calls": "POST /v1/chat/completions", "status": 401, "body": "echoes the key"})
        answers.append(agent.post("/v1/chat/completions", json=ask))
        provider.script({"calls": "POST /v1/chat/completions", "fault": "malformed"})
        answers.append(agent.post("/v1/chat/completions", json=ask))
        answers.append(agent.get(f"/v1/models?key={QUERY_KEY}"))
    with governor.agent("billing", **told) as agent:
        answers.append(agent.post("/records", json={"note": WRITE_BODY}, headers={"Idempotency-Key": "k-1"}))
        provider.script({"calls": "POST /records", "fault": "reset_after_effect"})
        answers.append(agent.post("/records", json={"note": WRITE_BODY}, headers={"Idempotency-Key": "k-2"}))
        provider.script({"calls": "POST /invites", "fault": "reset_after_effect"})
        answers.append(agent.post("/invites", json={"note": WRITE_BODY}))
        provider.script({"calls": "POST /jobs", "status": 422, "body": {"error": {"message": WRITE_BODY}}})
        answers.append(agent.post("/jobs", json={"note": WRITE_BODY}))
        answers.append(agent.get("/records", headers={"Rategov-Priority": WRONG_TOKEN}))
        answers.append(agent.get(f"/records/{'k' * 8}?token={QUERY_KEY}"))
    with governor.agent("gone", **told) as agent:
        answers.append(agent.post("/records", json={"note": WRITE_BODY}))
    for header in ("Authorization", "X-Api-Key", "X-Goog-Api-Key", "Api-Key"):
        value = f"Bearer {WRONG_TOKEN}" if header == "Authorization" else WRONG_TOKEN
        answers.append(httpx.get(governor.url("billing", "/records"), headers={header: value}))
    answers.append(httpx.get(f"{governor.agents}/run/{WRONG_TOKEN.replace('/', '-')}/openai/v1/models"))
    # A head that breaks off in the middle of a key.
    with Wire(governor.host, governor.port) as wire:
        wire.send(head_of("GET", "/openai/v1/models", [("Authorization", f"Bearer {token}\x01")]))
        wire.until_closed()
    return answers


def run_token(governor):
    """Runs a program under exec that calls once; returns the run's token."""
    script = (
        "import os, urllib.request as r; u = os.environ['OPENAI_BASE_URL']; "
        "r.urlopen(u + '/models').read(); print(u)"
    )
    done = governor.cli("exec", "--agent", "worker", "--", sys.executable, "-c", script)
    return done.stdout.strip().split("/run/")[1].split("/")[0], done.stderr


def outputs(governor):
    """Everything that can be asked for, by name."""
    said = {}
    for path in ("status", "scopes", "queue", "actions", "escalations?all=true", "agents", "tasks", "policy", "journal"):
        said[f"api {path}"] = governor.door.get(f"/api/v1/{path}").content
    said["metrics"] = governor.door.get("/metrics").content
    for action in governor.actions():
        said[f"api action {action['action']}"] = governor.door.get(f"/api/v1/actions/{action['action']}").content
    for row in governor.api("escalations?all=true")["escalations"]:
        said[f"api escalation {row['escalation']}"] = governor.door.get(
            f"/api/v1/escalations/{row['escalation']}"
        ).content
        said[f"cli escalation {row['escalation']}"] = governor.cli("escalations", "show", row["escalation"]).stdout.encode()
    for command in (
        ("audit", "show"),
        ("audit", "export"),
        ("audit", "verify"),
        ("--json", "audit", "show"),
        ("status",),
        ("tasks", "list"),
        ("escalations", "list", "--all"),
        ("policy", "check", governor.config_file),
    ):
        done = governor.cli(*command, env=config.SECRETS)
        said[f"cli {' '.join(map(str, command))}"] = (done.stdout + done.stderr).encode()
    return said


def test_no_secret_comes_out_anywhere(provider, governor):
    answers = exercise(provider, governor)
    run, exec_errors = run_token(governor)
    until("the question", governor.escalations)
    governor.api("policy/reload", {})
    said = outputs(governor)
    before = canary.files(governor.data)
    log = governor.process.err()
    assert "an attempt got no answer" in log, "the log is as loud as it gets"
    governor.kill()
    governor.start()
    said |= {f"after the restart: {name}": text for name, text in outputs(governor).items()}
    governor.stop()
    logs = {f"log {name}": data for name, data in canary.files(governor.folder).items() if name.endswith(("governor-1.err", "governor-1.out", "governor-2.err", "governor-2.out"))}
    assert len(logs) == 4
    data = {**before, **{f"after: {name}": text for name, text in canary.files(governor.data).items()}}
    assert any(name.endswith((".db", ".sqlite", ".sqlite3")) or ".db" in name or "journal" in name for name in data), list(data)
    places = {**said, **logs, **data, "exec's errors": exec_errors.encode()}

    secrets = {
        **config.SECRETS,
        "file key": FILE_KEY,
        "wrong token": WRONG_TOKEN,
        "query": QUERY_KEY,
        "cookie": COOKIE,
        "read body": READ_BODY,
        "write body": WRITE_BODY,
        "run token": run,
    }
    finds = {name: canary.search(secret, places) for name, secret in secrets.items()}
    finds = {name: where for name, where in finds.items() if where}
    assert not finds, finds

    # The operator's token is in its file and in the login link, and nowhere else.
    link = f"/#token={governor.token}".encode()
    rest = {name: text.replace(link, b"") for name, text in places.items() if not name.endswith("operator-token")}
    assert not canary.search(governor.token, rest)

    # An answer of the provider that repeats the credential is the provider's; the
    # governor's own answers hold none.
    own = {
        f"answer {n}": answer.content + repr(answer.headers.multi_items()).encode()
        for n, answer in enumerate(answers)
        if answer.headers.get("rategov-source") == "governor"
    }
    assert len(own) >= 8
    leaked = {name: canary.search(secret, own) for name, secret in secrets.items()}
    assert not any(leaked.values()), leaked


def test_secret_files_are_for_their_owner_alone(governor):
    for file in governor.data.rglob("*"):
        mode = stat.S_IMODE(os.stat(file).st_mode)
        assert mode & 0o077 == 0, f"{file} can be read by others: {mode:o}"
    assert stat.S_IMODE(os.stat(governor.data).st_mode) & 0o077 == 0


def test_a_process_that_holds_secrets_leaves_no_core_dump(governor):
    pid = governor.process.child.pid
    with open(f"/proc/{pid}/limits") as limits:
        core = next(line for line in limits if line.startswith("Max core file size"))
    assert core.split()[4] == "0", core
