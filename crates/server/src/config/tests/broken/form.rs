//! Files that are no configuration, unknown keys, and quantities.

use super::check;

#[test]
fn text_that_is_no_yaml_names_its_place() {
    insta::assert_snapshot!(check("hold: 60s\nagents: [\n"), @r"rategov.yaml:2:9: unclosed bracket '['");
}

#[test]
fn a_list_is_no_configuration() {
    insta::assert_snapshot!(check("- hold: 60s\n"), @r"rategov.yaml:1:1: expected a map of keys, found a list");
}

#[test]
fn several_documents_are_no_configuration() {
    insta::assert_snapshot!(check("hold: 60s\n---\nhold: 30s\n"), @r"
    rategov.yaml:3:1: a configuration is one YAML document
      hint: leave out what follows `---`
    ");
}

#[test]
fn a_misspelt_key_is_answered_with_the_right_one() {
    insta::assert_snapshot!(check("
request_classes:
  read:
    max_attemps: 4
"), @r"
    rategov.yaml:3:5: unknown key `max_attemps`
      hint: did you mean `max_attempts`?
    ");
}

#[test]
fn a_key_that_resembles_nothing_is_answered_with_the_known_ones() {
    insta::assert_snapshot!(check("
backoff: { base: 1s, exponent: 2 }
"), @r"
    rategov.yaml:1:22: unknown key `exponent`
      hint: known here: `base`, `cap`, `minimum`
    ");
}

#[test]
fn a_key_in_the_wrong_place_is_unknown_there() {
    insta::assert_snapshot!(check("
max_attempts: 4
"), @r"
    rategov.yaml:1:1: unknown key `max_attempts`
      hint: `examples/rategov.yaml` explains every key
    ");
}

#[test]
fn a_key_that_is_written_twice_is_ambiguous() {
    insta::assert_snapshot!(check("
hold: 60s
hold: 30s
"), @r"
    rategov.yaml:2:1: `hold` is written twice
      hint: keep one of them
    ");
}

#[test]
fn every_mistake_of_a_file_is_named_at_once() {
    insta::assert_snapshot!(check("
hold: soon
backof: { base: 1s }
request_classes:
  read: { max_attempts: many, retry_statuses: [429, teapot] }
  uncertain_write: [1]
task: { max_retries: -1, deadline: 0s }
agents:
  bot: { priority: urgent }
"), @r"
    rategov.yaml:1:7: `soon` is not a time
      hint: write a whole number and its unit, such as `250ms`, `60s`, `10m`, `24h` or `90d`
    rategov.yaml:2:1: unknown key `backof`
      hint: did you mean `backoff`?
    rategov.yaml:4:25: expected a whole number from 0 to 65535, found text
    rategov.yaml:4:53: expected a whole number from 0 to 65535, found text
    rategov.yaml:5:20: expected a map of keys, found a list
    rategov.yaml:6:22: -1 is not a whole number from 0 to 4294967295
    rategov.yaml:6:36: this time can't be zero
      hint: leave the key out for the default
    rategov.yaml:8:20: unknown priority `urgent`
      hint: known here: `interactive`, `normal`, `background`
    ");
}

#[test]
fn a_time_needs_its_unit() {
    insta::assert_snapshot!(check("hold: 60"), @r"
    rategov.yaml:1:7: `60` is a time without its unit
      hint: write `60s` for seconds
    ");
}

#[test]
fn a_time_is_whole() {
    insta::assert_snapshot!(check("hold: 1.5s"), @r"
    rategov.yaml:1:7: `1.5s` is not a time
      hint: write a whole number and its unit, such as `250ms`, `60s`, `10m`, `24h` or `90d`
    ");
}

#[test]
fn a_time_has_an_end() {
    insta::assert_snapshot!(check("hold: 99999d"), @r"
    rategov.yaml:1:7: `99999d` is too long
      hint: at most ten years, `3660d`
    ");
}

#[test]
fn a_size_needs_its_unit() {
    insta::assert_snapshot!(check("max_replay_body: 32"), @r"
    rategov.yaml:1:18: `32` is a size without its unit
      hint: write `32B` for bytes, or use `MB`
    ");
}

#[test]
fn a_share_is_a_percentage() {
    insta::assert_snapshot!(check("shared_scope: { headroom: 0.1 }"), @r"rategov.yaml:1:27: expected a share such as `5%`, found a fraction");
}

#[test]
fn a_count_is_a_number() {
    insta::assert_snapshot!(check("shared_scope: { max_delayed_requests: plenty }"), @r"rategov.yaml:1:39: expected a whole number, found text");
}

#[test]
fn a_count_is_not_negative() {
    insta::assert_snapshot!(check("shared_scope: { max_concurrent_requests: -2 }"), @r"rategov.yaml:1:42: -2 is not a whole number from 0 to 4294967295");
}

#[test]
fn a_count_fits() {
    insta::assert_snapshot!(check("request_classes: { read: { max_attempts: 70000 } }"), @r"rategov.yaml:1:42: 70000 is not a whole number from 0 to 65535");
}

#[test]
fn a_key_without_a_value_says_nothing() {
    insta::assert_snapshot!(check("hold:"), @r"rategov.yaml:1:5: expected a time such as `60s` or `250ms`, found nothing");
}

#[test]
fn an_item_of_the_wrong_kind_does_not_shift_the_lines_of_the_others() {
    insta::assert_snapshot!(check("
providers:
  billing:
    base_url: https://x.example
    endpoints:
      - GET /records
      - { match: GET /records, class: read }
      - [429]
      - { match: get /records }
"), @r"
    rategov.yaml:5:9: expected a map of keys, found text
    rategov.yaml:7:9: expected a map of keys, found a list
    rategov.yaml:8:18: methods are written in capitals
      hint: did you mean `GET /records`?
    ");
}
