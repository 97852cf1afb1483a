//! Providers, accounts, quotas, header fields.

use super::check;

#[test]
fn a_provider_that_nobody_knows() {
    insta::assert_snapshot!(check("
providers:
  opnai: {}
  billing: {}
"), @r"
    rategov.yaml:2:3: provider `opnai` has no `base_url`, and there is no preset of that name
      hint: did you mean `openai`?
    rategov.yaml:3:3: provider `billing` has no `base_url`, and there is no preset of that name
      hint: add `base_url: https://…`
    ");
}

#[test]
fn a_preset_that_can_not_know_where_its_provider_is() {
    insta::assert_snapshot!(check("
providers:
  jira: {}
  shop: { preset: shopify-rest }
"), @r"
    rategov.yaml:2:3: provider `jira` has no `base_url`, and each customer of this provider has an address of its own
      hint: add `base_url: https://…`
    rategov.yaml:3:3: provider `shop` has no `base_url`, and each customer of this provider has an address of its own
      hint: add `base_url: https://…`
    ");
}

#[test]
fn a_preset_that_nobody_knows() {
    insta::assert_snapshot!(check("
providers: { mine: { preset: antropic, base_url: https://x.example } }
"), @r"
    rategov.yaml:1:30: there is no preset `antropic`
      hint: did you mean `anthropic`?
    ");
}

#[test]
fn a_name_that_is_no_path_segment() {
    insta::assert_snapshot!(check("
providers:
  Billing API: { base_url: https://x.example }
  governor: { base_url: https://x.example }
"), @r"
    rategov.yaml:2:3: `Billing API` can't name a provider: the name is part of its gateway path
      hint: lower-case letters, digits, `-`, `_` and `.`, at most 64
    rategov.yaml:3:3: `governor` is the governor's own path and can't name a provider
    ");
}

#[test]
fn a_credential_does_not_travel_in_clear() {
    insta::assert_snapshot!(check("
providers: { billing: { base_url: http://billing.example.com } }
"), @r"
    rategov.yaml:1:35: credentials would travel in clear
      hint: use `https://`, or write `allow_plain_http: true` if this network is yours
    ");
}

#[test]
fn a_metadata_service_is_no_provider() {
    insta::assert_snapshot!(check("
providers: { billing: { base_url: http://169.254.169.254/latest } }
"), @r"
    rategov.yaml:1:35: no provider has this address
      hint: link-local, multicast and unspecified addresses are never called
    ");
}

#[test]
fn a_quota_limits_something() {
    insta::assert_snapshot!(check("
providers:
  billing:
    base_url: https://x.example
    accounts:
      ops:
        quotas:
          - { limit: 0, window: 10s }
          - { limit: 60, window: 0s }
          - { limit: 60 }
          - { window: 10s }
          - { scope: modell, limit: 60, window: 10s }
          - { dimension: concurrent, limit: 4, window: 10s }
          - { limit: 60, window: 10s, kind: token_bucket }
          - { limit: 60, window: 10s, kind: slidng }
          - { limit: 60, window: 10s, burst: 5 }
"), @r"
    rategov.yaml:7:22: a limit of 0 would refuse every call
      hint: leave the quota out to learn it, or take the account away from the agents
    rategov.yaml:8:34: a window can't be zero
      hint: write the time in which the limit holds, such as `60s`
    rategov.yaml:9:13: a quota needs `window`
      hint: write the time in which the limit holds, such as `window: 60s`
    rategov.yaml:10:13: a quota needs `limit`
      hint: write `limit: 60`
    rategov.yaml:11:22: `modell` is no scope of a quota
      hint: did you mean `model`?
    rategov.yaml:12:56: calls open at once have no `window`
      hint: leave it out
    rategov.yaml:13:45: a token bucket needs `burst`, what it holds
      hint: often the limit itself; `kind: unknown` is safe where nobody says
    rategov.yaml:14:45: unknown word `slidng`
      hint: did you mean `sliding`?
    rategov.yaml:15:46: only a token bucket has a `burst`
      hint: write `kind: token_bucket`, or leave `burst` out
    ");
}

#[test]
fn a_header_has_a_name() {
    insta::assert_snapshot!(check("
providers:
  billing: { base_url: https://x.example, credential_header: 'my key' }
"), @r"
    rategov.yaml:2:62: this is not the name of a header
      hint: write `Authorization` or `x-api-key`
    ");
}

#[test]
fn a_credential_is_named_once() {
    insta::assert_snapshot!(check("
providers:
  billing:
    base_url: https://x.example
    accounts:
      ops: { credential: env:A, credentials: [env:B, env:B, pass-through] }
"), @r"
    rategov.yaml:5:46: an account has `credential` or `credentials`, not both
      hint: put all of them into `credentials`
    rategov.yaml:5:46: an account uses its own credentials or the callers' (`pass-through`), not both
    rategov.yaml:5:54: this credential is listed twice
    ");
}
