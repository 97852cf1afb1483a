"""A broken configuration names file, line, cause and hint, and nothing starts half (Must show 8)."""

import re
import signal
import socket

import pytest

from rig import config
from rig.process import Process
from rig.until import until

BASE = """\
providers:
  billing:
    base_url: http://127.0.0.1:9100
"""

# What is written, the line that is named, and words of its cause or hint.
BROKEN = {
    "an unknown key": (BASE + "    acounts: {}\n", 4, "accounts"),
    "an unknown key at the top": ("hold: 60s\nholdd: 5s\n", 2, "hold"),
    "a wrong type": ("hold: [1, 2]\n", 1, "found a list"),
    "a number without its unit": ("hold: soon\n", 1, "60s"),
    "no YAML": ("providers:\n  billing: {\n", None, "unclosed"),
    "a key that is there twice": ("hold: 60s\nhold: 5s\n", 2, "twice"),
    "a secret pasted where its name belongs": (
        BASE + "    accounts:\n      ops: { credential: sk-live-abc }\n",
        5,
        "env:NAME",
    ),
    "a class that does not exist": (
        BASE + "    endpoints:\n      - match: GET /x\n        class: reed\n",
        6,
        "read",
    ),
    "a contradiction": (
        BASE + "    endpoints:\n      - { match: POST /x, class: idempotent_write }\n",
        5,
        "nothing makes this write repeatable",
    ),
    "a base URL that is none": ("providers:\n  billing:\n    base_url: ftp://x\n", 3, "http"),
    "a name that no provider can have": ("providers:\n  run: { base_url: http://127.0.0.1:1 }\n", 2, "run"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_mistake_is_named_and_nothing_starts(binary, tmp_path, programs, what):
    text, line, words = BROKEN[what]
    file = tmp_path / "broken.yaml"
    file.write_text(text)
    data = tmp_path / "data"
    serve = [binary, "--data", data, "serve", "--config", file, "--agents", "127.0.0.1:0"]
    serve += ["--operators-listen", "127.0.0.1:0"]
    check = [binary, "policy", "check", file]
    for name, argv in (("serve", serve), ("check", check)):
        process = Process(name, argv, tmp_path)
        assert process.wait() == 1
        said = process.err() + (process.out() if name == "check" else "")
        place = rf"broken\.yaml:{line}:\d+: " if line else r"broken\.yaml(:\d+:\d+)?: "
        assert re.search(place, said), said
        assert words in said, said
        assert "hint: " in said, said
        assert "sk-live-abc" not in said, "what may be a secret is not repeated"
        assert "agents call" not in said
    assert not data.exists(), "no half start: not even a data folder"


def test_all_mistakes_are_named_at_once(binary, tmp_path, programs):
    file = tmp_path / "broken.yaml"
    file.write_text("holdd: 60s\nbackoff: { base: never }\n" + BASE + "    acounts: {}\n")
    process = Process("check", [binary, "policy", "check", file], tmp_path)
    assert process.wait() == 1
    said = process.out() + process.err()
    for line in (1, 2, 6):
        assert re.search(rf"broken\.yaml:{line}:\d+: ", said), said


def test_a_secret_that_is_not_there_stops_the_start(provider, binary, tmp_path, programs):
    file = tmp_path / "missing.yaml"
    file.write_text(BASE + "    accounts:\n      ops: { credential: env:NOT_SET_ANYWHERE }\n")
    argv = [binary, "--data", tmp_path / "data", "serve", "--config", file]
    process = Process("serve", [*argv, "--agents", "127.0.0.1:0"], tmp_path)
    assert process.wait() == 1
    assert "NOT_SET_ANYWHERE" in process.err() and "hint: " in process.err()
    assert not (tmp_path / "data").exists()


def test_a_file_that_is_not_there_is_named(binary, tmp_path, programs):
    argv = [binary, "--data", tmp_path / "data", "serve", "--config", tmp_path / "none.yaml"]
    process = Process("serve", argv, tmp_path)
    assert process.wait() == 1
    assert "none.yaml" in process.err() and "hint: " in process.err()


def test_an_address_in_use_is_named_and_nothing_is_left_listening(binary, tmp_path, programs):
    with socket.socket() as taken, socket.socket() as free:
        for held in (taken, free):
            held.bind(("127.0.0.1", 0))
        taken.listen()
        used, other = taken.getsockname()[1], free.getsockname()[1]
        free.close()
        argv = [binary, "--data", tmp_path / "data", "serve"]
        argv += ["--agents", f"127.0.0.1:{other}", "--operators-listen", f"127.0.0.1:{used}"]
        process = Process("serve", argv, tmp_path)
        assert process.wait() == 1
        assert f"127.0.0.1:{used}" in process.err() and "hint: " in process.err()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", other), timeout=5)


def test_a_second_governor_on_the_same_data_is_refused(provider, new_governor, tmp_path):
    first = new_governor()
    second = Process("second", first.serve_argv(), tmp_path)
    assert second.wait() == 1
    assert "hint: " in second.err()
    assert first.api("status")["version"]


def test_a_bad_reload_keeps_the_old_configuration(provider, new_governor):
    governor = new_governor(config.billing(provider), env=config.SECRETS)
    digest = governor.api("policy")["digest"]
    good = governor.config_file.read_text()
    governor.config_file.write_text(good.replace("idempotent_write", "idempotent_right"))
    refused = governor.door.post("/api/v1/policy/reload")
    assert refused.status_code == 400 and "idempotent_write" in refused.text
    governor.process.signal(signal.SIGHUP)
    said = governor.process.line(r"the old configuration stays in force")
    assert said and governor.api("policy")["digest"] == digest
    with governor.agent("billing") as agent:
        assert agent.get("/records").status_code == 200
    changed = config.billing(provider, hold="7s")
    governor.configure(changed)
    governor.process.signal(signal.SIGHUP)
    until("the new one", lambda: governor.api("policy")["hold_seconds"] == 7)
    assert any("policy_changed" in line for line in governor.audit())


def test_keys_that_do_not_act_yet_are_named(provider, new_governor):
    predict = {"window": "10s", "threshold": "80%"}
    governor = new_governor(config.billing(provider, predict=predict), env=config.SECRETS)
    warnings = governor.api("status")["warnings"]
    assert any("predict" in warning for warning in warnings), warnings
    assert "warning: " in governor.process.err()
    checked = governor.cli("policy", "check", governor.config_file, env=config.SECRETS)
    assert "predict" in checked.stdout + checked.stderr
