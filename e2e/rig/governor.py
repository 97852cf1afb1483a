"""The governor in the tests' hands: `rategov serve`, its two listeners, its commands."""

import json
import signal
import subprocess

import httpx

from rig.process import Process, environment
from rig.until import until

# No call of a test waits longer, whatever goes wrong.
CALL_S = 90.0


def plain_client(**how):
    """A client for plain HTTP on this machine. It reads no certificates, which would take
    longer than the calls."""
    return httpx.Client(timeout=CALL_S, trust_env=False, verify=False, **how)


class Governor:
    """A governor with a data folder of its own. Starts at once; may be killed and started again."""

    def __init__(self, binary, folder, config=None, env=None, name="governor"):
        self.binary, self.folder, self.name = binary, folder, name
        self.data = folder / f"{name}-data"
        self.config_file = folder / f"{name}.yaml"
        self.env = {"RATEGOV_LOG": "info", **(env or {})}
        self.starts = 0
        self.configure(config)
        self.start()

    def configure(self, config):
        """Writes the configuration: a mapping (JSON is YAML), a text, or none."""
        self.config = config
        if config is not None:
            text = config if isinstance(config, str) else json.dumps(config, indent=1)
            self.config_file.write_text(text)

    def serve_argv(self):
        argv = [self.binary, "--data", self.data, "serve"]
        argv += ["--agents", "127.0.0.1:0", "--operators-listen", "127.0.0.1:0"]
        return argv if self.config is None else [*argv, "--config", self.config_file]

    def start(self):
        """Starts it and waits until it admits calls."""
        self.starts += 1
        self.process = Process(f"{self.name}-{self.starts}", self.serve_argv(), self.folder, self.env)
        self.agents = self.process.line(r"^agents call +(http://[^/]+)/")[1]
        found = self.process.line(r"^operators log in (http://[^/]+)/#token=(\S+)$")
        self.operators, self.token = found[1], found[2]
        self.host, port = self.agents.removeprefix("http://").split(":")
        self.port = int(port)
        self.operators_port = int(self.operators.rsplit(":", 1)[1])
        self.door = plain_client(
            base_url=self.operators, headers={"authorization": f"Bearer {self.token}"}
        )
        until("readiness", lambda: self.door.get("/readyz").status_code == 200)

    def kill(self):
        """kill -9."""
        self.process.kill()

    def stop(self):
        """SIGTERM, as a service manager does it; returns the exit code."""
        self.process.signal(signal.SIGTERM)
        return self.process.wait()

    # ---- as an agent -----------------------------------------------------------

    def url(self, provider, path=""):
        """Where an agent calls."""
        return f"{self.agents}/{provider}{path}"

    def agent(self, provider=None, **headers):
        """A plain HTTP client of an agent: never retries, follows nothing."""
        base = self.url(provider) if provider else f"{self.agents}/governor/v1"
        return plain_client(base_url=base, headers=headers)

    # ---- as an operator --------------------------------------------------------

    def api(self, path, body=None, method=None):
        """A call to the operators' API that must succeed."""
        method = method or ("GET" if body is None else "POST")
        answer = self.door.request(method, f"/api/v1/{path}", json=body)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json()

    def actions(self, **query):
        return self.api("actions?" + "&".join(f"{k}={v}" for k, v in query.items()))["actions"]

    def action(self, name):
        return self.api(f"actions/{name}")

    def escalations(self):
        return self.api("escalations")["escalations"]

    def escalation(self, within=20.0):
        """The one open question, once there is one."""
        found = until("an escalation", self.escalations, within)
        assert len(found) == 1, found
        return self.api(f"escalations/{found[0]['escalation']}")

    def busy(self):
        """What is not free: calls that wait, are on the wire, or hold a seat or a reservation."""
        status = self.api("status")
        kept = []
        for account in status["accounts"]:
            if any(account["waiting"].values()) or account["on_the_wire"]:
                kept.append(account)
        for scope in status["scopes"]:
            if scope["in_flight"] or scope["reserved"]:
                kept.append(scope)
        return kept

    def until_idle(self, within=15.0):
        """Waits until every slot is free."""
        until("every slot to be free", lambda: not self.busy() or None, within)

    def cli(self, *args, env=None, check=True, within=60.0):
        """Runs `rategov …` as an operator on this machine."""
        argv = [self.binary, "--data", self.data, "--operators", self.operators.removeprefix("http://")]
        done = subprocess.run(
            [str(part) for part in [*argv, *args]],
            env=environment(env),
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=within,
            check=False,
        )
        if check:
            assert done.returncode == 0, f"rategov {args}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done

    def json(self, *args, **how):
        """Runs `rategov --json …` and reads what it prints."""
        return json.loads(self.cli("--json", *args, **how).stdout)

    def audit(self, *args):
        """The journal in its compact text form, one record a line."""
        return self.cli("audit", "show", *args).stdout.splitlines()

    def chain_holds(self):
        """Verifies the chain; fails with what the verifier says."""
        return self.cli("audit", "verify").stdout
