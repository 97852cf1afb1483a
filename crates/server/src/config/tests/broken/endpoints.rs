//! Endpoints whose promises contradict each other.

use super::check;

#[test]
fn an_endpoint_says_what_it_matches() {
    insta::assert_snapshot!(check("
providers:
  billing:
    base_url: https://x.example
    endpoints:
      - { class: read }
      - { match: get /records }
      - { match: GET records }
      - { match: '* /records' }
      - { match: 'GET /records/{id}' }
      - { match: 'GET /records/{key}' }
      - { match: GET /aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa }
"), @r"
    rategov.yaml:5:9: an endpoint needs `match`
      hint: write `match: GET /records/{id}`
    rategov.yaml:6:18: methods are written in capitals
      hint: did you mean `GET /records`?
    rategov.yaml:7:18: the path of an endpoint begins with `/`
    rategov.yaml:8:9: an endpoint for every method needs its `class`
      hint: `uncertain_write` is safe for all
    rategov.yaml:10:18: `GET /records/{key}` is described twice
      hint: keep one of them
    rategov.yaml:11:18: an endpoint has at most 191 bytes
      hint: a last `*` matches all that follows
    ");
}

#[test]
fn a_class_and_its_promises_agree() {
    insta::assert_snapshot!(check("
providers:
  billing:
    base_url: https://x.example
    endpoints:
      - { match: POST /a, class: idempotent_write }
      - { match: POST /b, class: uncertain_write, idempotency: { lifetime: 24h } }
      - { match: POST /c, class: uncertain_write, coalesce: 2s }
      - { match: GET /d, class: read, hold_after_uncertain: 10m }
      - { match: PUT /e, class: idempotent_write, absent_is_success: true }
      - { match: POST /f, class: safe }
"), @r#"
    rategov.yaml:5:34: nothing makes this write repeatable: it has no `idempotency`
      hint: add `idempotency: { header: Idempotency-Key, lifetime: 24h }`, or write `class: uncertain_write`
    rategov.yaml:6:51: a call of class `uncertain_write` has no key
      hint: write `class: idempotent_write`, or leave `idempotency` out
    rategov.yaml:7:61: only reads can be shared, and this is of class `uncertain_write`
    rategov.yaml:8:61: `hold_after_uncertain` is for writes, and this is of class `read`
    rategov.yaml:9:70: "already absent" is success only for DELETE
    rategov.yaml:10:34: unknown request class `safe`
      hint: known here: `read`, `idempotent_write`, `uncertain_write`, `generation`
    "#);
}

#[test]
fn a_key_has_a_header_and_a_lifetime() {
    insta::assert_snapshot!(check("
providers:
  billing:
    base_url: https://x.example
    endpoints:
      - { match: POST /a, idempotency: { header: 'no header' } }
      - { match: POST /b, idempotency: { lifetime: 24h, in_progress: 409, mismatch: 409 } }
      - { match: POST /c, idempotency: { lifetime: 24h, mismatch: 503 } }
"), @r"
    rategov.yaml:5:27: a key needs its `lifetime`, after which the provider forgets it
      hint: the provider's documentation says it, often `lifetime: 24h`
    rategov.yaml:5:50: this is not the name of a header
      hint: write `Idempotency-Key`
    rategov.yaml:6:85: one status can't mean both `in_progress` and `mismatch`
      hint: leave out the one that the provider doesn't document
    rategov.yaml:7:67: this is the status of a refusal, 400 to 499
    ");
}

#[test]
fn a_look_up_can_be_asked_and_understood() {
    insta::assert_snapshot!(check("
providers:
  billing:
    base_url: https://x.example
    endpoints:
      - { match: POST /a, class: uncertain_write, reconcile: { request: 'GET /a?r={external_ref}' } }
      - { match: POST /b, class: uncertain_write, reconcile: { found: $.id } }
      - { match: POST /c, class: uncertain_write, reconcile: { request: POST /c, found: id } }
      - { match: 'POST /d/{team}', class: uncertain_write, reconcile: { request: 'GET /d/{tem}', found: $.id } }
      - { match: GET /e, class: read, reconcile: { request: GET /e, found: $.id } }
"), @r"
    rategov.yaml:5:51: a look-up needs `found`, where its answer shows the operation
      hint: write `found: $.items[0].id`
    rategov.yaml:5:73: `{external_ref}` is never known here: the endpoint has no `external_ref`
      hint: add `external_ref`, or ask in another way
    rategov.yaml:6:51: a look-up needs its `request`
      hint: write `request: GET /records?key={idempotency_key}`
    rategov.yaml:7:73: a look-up is a GET: it must be safe to repeat
      hint: write `GET /path?key={idempotency_key}`
    rategov.yaml:7:89: not a path into a JSON text
      hint: write `$.id`, `$.items[0].id` or `$['odd name']`
    rategov.yaml:8:82: `{tem}` is nothing a look-up knows
      hint: did you mean `team`?
    rategov.yaml:9:39: `reconcile` is for writes, and this is of class `read`
    ");
}

#[test]
fn a_502_is_no_proof() {
    insta::assert_snapshot!(check("
providers:
  billing: { base_url: https://x.example, refusals_unprocessed: [429, 502] }
"), @r"
    rategov.yaml:2:71: 502 is never proof that nothing was processed
      hint: only 429 and 503 can be
    ");
}

#[test]
fn a_field_and_an_error_rule_say_something() {
    insta::assert_snapshot!(check("
providers:
  billing:
    base_url: https://x.example
    fields:
      - { header: x-left, what: remaning, dimension: requests }
      - { header: x-left }
      - { what: retry, header: x-wait, dimension: requests }
    errors:
      - { meaning: rate_limited }
      - { status: 429 }
"), @r"
    rategov.yaml:5:33: unknown content of a field `remaning`
      hint: did you mean `remaining`?
    rategov.yaml:6:9: a field needs `what`
      hint: write `what: remaining`
    rategov.yaml:7:51: `retry` has no dimension
      hint: leave it out
    rategov.yaml:9:9: an error rule asks for a `status`, a `code`, a `message` or the like: this one would match nothing
    rategov.yaml:10:9: an error rule needs its `meaning`
      hint: write `meaning: rate_limited`
    ");
}

#[test]
fn a_field_is_in_one_place_and_its_limit_has_a_name_that_can_be_filled() {
    insta::assert_snapshot!(check("
providers:
  billing:
    base_url: https://x.example
    fields:
      - { header: x-a, body: $.a, what: cost }
      - { what: cost }
      - { body: a.b, what: cost }
      - { header: x-left, what: remaining, dimension: requests, name: 'bucket:{x-bucket' }
    errors:
      - { status: [], meaning: billing }
      - { status: [429, 99], meaning: billing }
      - { status: 429, meaning: billing, advice: weit }
"), @r"
    rategov.yaml:5:30: a field is in a `header` or in the `body`, not in both
    rategov.yaml:6:9: a field needs `header` or `body`
      hint: write `header: x-ratelimit-remaining`
    rategov.yaml:7:17: this is not a path into a JSON text
      hint: write `$.error.code` or `$.items[*].status`
    rategov.yaml:8:71: a limit can't be called so
      hint: write `requests_day`, or `bucket:{x-ratelimit-bucket}`
    rategov.yaml:10:19: no status would match
    rategov.yaml:11:19: this is not the status of an answer
    rategov.yaml:12:50: unknown advice `weit`
      hint: did you mean `wait`?
    ");
}
