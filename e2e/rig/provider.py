"""The provider in the tests' hands: scripted, and read from its own ledger."""

import hashlib

import httpx

from rig.process import Process


def label_of(secret):
    """How the ledger names a credential: enough to tell two apart, not to use one."""
    return "cred-" + hashlib.sha256(secret.encode()).hexdigest()[:8]


class Provider:
    """A running `rategov fake-provider`."""

    def __init__(self, binary, folder, quota="none", headers="native", latency="0ms", name="provider", seed=1, answers="short"):
        argv = [binary, "fake-provider", "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0"]
        argv += ["--quota", quota, "--headers", headers, "--latency", latency, "--seed", seed]
        argv += ["--answers", answers]
        self.process = Process(name, argv, folder)
        self.url = self.process.line(r"^provider (http://\S+)$")[1]
        self.host, port = self.url.removeprefix("http://").split(":")
        self.port = int(port)
        control = self.process.line(r"^control  (http://\S+)/ledger$")[1]
        self.control = httpx.Client(base_url=control, timeout=70.0, trust_env=False, verify=False)

    def script(self, *steps, clear=False, **connections):
        """Adds steps; after them service is ordinary. Keywords change its doors."""
        body = {"steps": list(steps), "clear": clear}
        if connections:
            body["connections"] = connections
        answer = self.control.post("/script", json=body)
        assert answer.status_code == 200, answer.text

    def release(self):
        """Lets every held answer go."""
        assert self.control.post("/release").status_code == 200

    def quota(self, *quotas):
        """Replaces the limits."""
        answer = self.control.post("/quota", json={"quotas": list(quotas)})
        assert answer.status_code == 200, answer.text

    def completed(self):
        """Whether every scripted fault was met."""
        return self.control.get("/completed").json()["completed"]

    def ledger(self, arrivals=0, effects=0, within=30.0):
        """The ledger, once so many have arrived and happened (or the time is over)."""
        query = {"arrivals": arrivals, "effects": effects, "wait_ms": int(within * 1000)}
        return Ledger(self.control.get("/ledger", params=query).json())

    def wait_for(self, arrivals=0, effects=0, within=30.0):
        """The ledger once so many have arrived and happened; fails if they don't."""
        ledger = self.ledger(arrivals, effects, within)
        assert arrivals <= ledger.arrived, f"only {ledger.arrived} of {arrivals} calls arrived"
        assert effects <= len(ledger.effects), f"only {len(ledger.effects)} of {effects} effects"
        return ledger


class Ledger:
    """What the provider counted. Times are seconds on the provider's own clock."""

    def __init__(self, json):
        self.json = json
        self.arrivals = json["arrivals"]
        self.effects = [e for e in json["effects"] if e["kind"] != "generated"]
        self.generations = [e for e in json["effects"] if e["kind"] == "generated"]
        self.arrived = json["totals"]["arrived"]
        self.refused = json["totals"]["refused"]
        self.now = json["now_us"] / 1e6
        self.in_flight = json["in_flight"]

    def of(self, method=None, target=None, key=None):
        """Arrivals like this; `target` is a beginning of it."""
        return [
            a
            for a in self.arrivals
            if (method is None or a["method"] == method)
            and (target is None or a["target"].startswith(target))
            and (key is None or a["key"] == key)
        ]

    def times(self, **like):
        """When those arrived."""
        return [a["at_us"] / 1e6 for a in self.of(**like)]

    def credentials(self):
        """The labels of every credential that arrived."""
        return {a["credential"] for a in self.arrivals}

    def most_effects(self):
        """The largest number of effects of one key or operation: above one, something was done twice."""
        counts = [*self.json["effects_by_key"].values(), *self.json["effects_by_operation"].values()]
        return max(counts, default=0)
