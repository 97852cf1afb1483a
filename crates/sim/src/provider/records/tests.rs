//! What a look-up finds, and when.

use super::*;

const LAG: Span = Span::from_secs(1);

fn at(ms: u64) -> Moment {
    Moment::from_micros(ms * 1_000)
}

fn work<'a>(ms: u64, key: Option<&'a str>, request: &'a Request) -> Work<'a> {
    let done_at = at(ms) + Span::from_millis(300);
    Work {
        now: at(ms),
        done_at,
        lag: LAG,
        key,
        request,
    }
}

fn body(reply: &Reply) -> Value {
    serde_json::from_slice(&reply.body.bytes()).expect("it is JSON")
}

fn ids(records: &Records, ms: u64, target: &str) -> Vec<String> {
    let request = Request::of("GET", target, &[], "");
    let page = body(&records.list(&work(ms, None, &request)).0);
    let items = page["items"].as_array().expect("a list").iter();
    items
        .map(|i| i["id"].as_str().expect("an id").to_owned())
        .collect()
}

fn create(records: &mut Records, ms: u64, key: &str, reference: &str) -> Result {
    let json = json!({ "external_ref": reference }).to_string();
    let request = Request::of("POST", "/records", &[], &json);
    records.create(&work(ms, Some(key), &request))
}

#[test]
fn a_record_is_found_by_key_by_reference_and_by_id_once_the_lag_is_over() {
    let mut records = Records::default();
    let (reply, effect) = create(&mut records, 10_000, "k 1", "order-7");
    assert_eq!(
        (reply.status, body(&reply)["id"].as_str()),
        (201, Some("rec_1"))
    );
    assert_eq!(effect, Some((EffectKind::Created, "rec_1".to_owned())));
    for target in [
        "/records?key=k%201",
        "/records?external_ref=order-7",
        "/records",
    ] {
        assert!(ids(&records, 11_299, target).is_empty(), "{target}");
        assert_eq!(ids(&records, 11_300, target), ["rec_1"], "{target}");
    }
    assert!(ids(&records, 20_000, "/records?key=k2").is_empty());
    let request = Request::of("GET", "/records/rec_1", &[], "");
    assert_eq!(
        records.get(&work(11_299, None, &request), "rec_1").0.status,
        404
    );
    assert_eq!(
        records.get(&work(11_300, None, &request), "rec_1").0.status,
        200
    );
}

#[test]
fn a_deleted_record_disappears_and_a_second_delete_finds_nothing() {
    let mut records = Records::default();
    create(&mut records, 0, "k", "r");
    let request = Request::of("DELETE", "/records/rec_1", &[], "");
    assert_eq!(
        records
            .delete(&work(2_000, None, &request), "rec_1")
            .0
            .status,
        204
    );
    assert_eq!(
        records
            .delete(&work(2_100, None, &request), "rec_1")
            .0
            .status,
        404
    );
    assert_eq!(
        ids(&records, 3_000, "/records"),
        ["rec_1"],
        "the replica lags"
    );
    assert!(ids(&records, 3_300, "/records").is_empty());
    assert_eq!(records.count(at(2_299)), 1);
    assert_eq!(records.count(at(2_300)), 0);
}

#[test]
fn a_list_comes_in_pages() {
    let mut records = Records::default();
    for n in 0..3 {
        create(&mut records, n, "k", "r");
    }
    assert_eq!(ids(&records, 9_000, "/records?limit=2"), ["rec_1", "rec_2"]);
    assert_eq!(
        ids(&records, 9_000, "/records?limit=2&after=rec_2"),
        ["rec_3"]
    );
}

#[test]
fn invitations_and_counters_act_each_time_they_are_asked() {
    let mut records = Records::default();
    assert_eq!(records.invite().0.status, 201);
    assert_eq!(
        records.invite().1,
        Some((EffectKind::Invited, "inv_2".to_owned()))
    );
    let request = Request::of("POST", "/counters/c", &[], "");
    records.count_up(&work(0, None, &request), "c");
    let (reply, _) = records.count_up(&work(1, None, &request), "c");
    assert_eq!(body(&reply)["value"], 2);
    assert_eq!(
        body(&records.counter(&work(1_300, None, &request), "c").0)["value"],
        1
    );
}

#[test]
fn a_full_store_refuses_by_name() {
    let mut records = Records::new(3);
    for n in 0..3 {
        create(&mut records, n, "k", "r");
    }
    let (reply, effect) = create(&mut records, 0, "k", "r");
    assert_eq!((reply.status, effect), (507, None));
}
