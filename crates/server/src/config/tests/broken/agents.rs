//! Agents, rights, and secrets in the wrong place.

use super::check;

#[test]
fn a_secret_does_not_belong_into_a_configuration() {
    insta::assert_snapshot!(check("
providers:
  billing:
    base_url: https://x.example
    accounts:
      ops: { credential: sk-canary-0123456789 }
      lab: { credential: 'vault:billing' }
agents:
  bot: { token: canary }
  own: { token: pass-through }
  odd: { token: 'env:NOT A NAME' }
"), @r"
    rategov.yaml:5:26: this is no place of a secret, and a secret itself doesn't belong into a configuration
      hint: write `env:NAME`, `file:PATH` or `pass-through`
    rategov.yaml:6:26: the vault is not available in this version
      hint: use `env:NAME` or `file:PATH`
    rategov.yaml:8:17: this is no place of a secret, and a secret itself doesn't belong into a configuration
      hint: write `env:NAME`, `file:PATH` or `pass-through`
    rategov.yaml:9:17: an agent's token can't be passed through: it is what tells agents apart
      hint: write `env:NAME` or `file:PATH`
    rategov.yaml:10:17: this is not the name of an environment variable
      hint: write `env:BILLING_API_KEY`
    ");
}

#[test]
fn a_right_is_to_something_that_exists() {
    insta::assert_snapshot!(check("
providers:
  billing: { base_url: https://x.example, accounts: { ops-team: {} } }
agents:
  bot:
    accounts: [billing/ops-taem, biling/ops-team, billing, 'billing/*']
    approve: ['POST /invites', 'biling POST /invites']
"), @r"
    rategov.yaml:5:16: there is no account `billing/ops-taem`
      hint: did you mean `billing/ops-team`?
    rategov.yaml:5:34: there is no provider `biling`
      hint: did you mean `billing/ops-team`?
    rategov.yaml:5:51: `billing` is no account
      hint: write `PROVIDER/ACCOUNT`, or `PROVIDER/*` for all of a provider's
    rategov.yaml:6:15: an endpoint needs a method and a path
      hint: write `METHOD /path`, such as `GET /records/{id}`
    rategov.yaml:6:15: there is no provider `POST`
      hint: providers are listed under `providers`
    rategov.yaml:6:32: there is no provider `biling`
      hint: did you mean `billing`?
    ");
}

#[test]
fn two_agents_are_told_apart() {
    insta::assert_snapshot!(check("
agents:
  a: { token: env:TOKEN }
  b: { token: env:TOKEN, weight: 0, max_concurrent_requests: 0 }
"), @r"
    rategov.yaml:3:15: agents `a` and `b` have the same token: nobody could tell them apart
      hint: give each its own
    rategov.yaml:3:34: a weight is from 1 to 1000
      hint: take rights away from an agent that should have no share
    rategov.yaml:3:62: no call could ever be open
      hint: at least 1, or leave the key out
    ");
}

#[test]
fn a_credential_is_not_left_open_to_a_network() {
    insta::assert_snapshot!(check("
listen: { agents: 0.0.0.0:7878 }
providers:
  billing:
    base_url: https://x.example
    accounts: { ops: { credential: env:KEY } }
"), @r"
    rategov.yaml:5:36: anybody who reaches 0.0.0.0:7878 could use this credential: no agents are configured
      hint: add `agents`, or listen on 127.0.0.1
    ");
}
