"""Configurations that several tests start from. JSON is YAML, so mappings do."""

# A provider's credentials and the agents' tokens: canaries, so that one that shows up
# where it must not is recognised.
OPENAI_KEY = "sk-real-openai-7f3a9c5e1b"
ANTHROPIC_KEY = "sk-ant-real-4d8e2f6a0c"
BILLING_KEY = "bk-real-9a1b3c5d7e"
TOKENS = {
    "desk": "rgt-desk-1f2e3d4c5b6a",
    "worker": "rgt-worker-6a5b4c3d2e1f",
    "sync-bot": "rgt-sync-0a9b8c7d6e5f",
}

SECRETS = {
    "REAL_OPENAI": OPENAI_KEY,
    "REAL_ANTHROPIC": ANTHROPIC_KEY,
    "REAL_BILLING": BILLING_KEY,
    **{f"TOKEN_{name.replace('-', '_').upper()}": token for name, token in TOKENS.items()},
}


def pass_through(provider):
    """Presets that lead to the fake provider; agents bring their own keys."""
    return {"providers": {"openai": {"base_url": provider.url}, "anthropic": {"base_url": provider.url}}}


def with_agents(provider, **quotas):
    """Three agents whose tokens stand for credentials that only the governor holds."""
    account = lambda name: {"credential": f"env:{name}", **quotas}  # noqa: E731
    return {
        "providers": {
            "openai": {"base_url": provider.url, "accounts": {"lab": account("REAL_OPENAI")}},
            "anthropic": {"base_url": provider.url, "accounts": {"lab": account("REAL_ANTHROPIC")}},
        },
        "agents": {
            "desk": {"token": "env:TOKEN_DESK", "priority": "interactive"},
            "worker": {"token": "env:TOKEN_WORKER", "priority": "normal"},
            "sync-bot": {"token": "env:TOKEN_SYNC_BOT", "priority": "background"},
        },
    }


RECORDS = {
    "match": "POST /records",
    "class": "idempotent_write",
    "idempotency": {
        "header": "Idempotency-Key",
        "lifetime": "24h",
        "stores": "all",
        "in_progress": 409,
        "mismatch": 422,
    },
    "operation_id": "$.id",
    "reconcile": {
        "request": "GET /records?key={idempotency_key}",
        "found": "$.items[0].id",
        "authoritative": True,
        "settle": "100ms",
        "max_in_flight": "500ms",
    },
}

# The same record store, as a provider that documents no look-up.
KEYED_ONLY = {**{k: v for k, v in RECORDS.items() if k != "reconcile"}, "match": "POST /jobs"}


def billing(provider, *endpoints, account=None, **top):
    """A plain API with a record store, invitations without key or look-up, and jobs with a key."""
    account = {"credential": "env:REAL_BILLING", **(account or {})}
    rules = [
        {"match": "GET /records", "class": "read"},
        {"match": "GET /records/{id}", "class": "read"},
        RECORDS,
        KEYED_ONLY,
        {"match": "POST /invites", "class": "uncertain_write"},
        *endpoints,
    ]
    return {
        "providers": {
            "billing": {
                "base_url": provider.url,
                "accounts": {"ops": account},
                "endpoints": rules,
            }
        },
        **top,
    }
