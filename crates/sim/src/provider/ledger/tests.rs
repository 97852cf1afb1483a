//! What is counted, what is dropped, and what the JSON says.

use super::*;

fn arrival(no: u64, verdict: Verdict) -> Arrival {
    Arrival {
        no: ArrivalNo(no),
        at: Moment::from_micros(no * 10),
        method: "POST".to_owned(),
        target: "/records".to_owned(),
        key: Some("k1".to_owned()),
        credential: label_of("secret"),
        account: "main".to_owned(),
        marks: BTreeMap::new(),
        body_sha256: sha256(b""),
        body_bytes: 0,
        in_flight: 0,
        verdict,
        status: Some(201),
        tokens: None,
        charged: BTreeMap::new(),
        ended: None,
    }
}

fn effect(no: u64, key: &str) -> EffectEntry {
    EffectEntry {
        at: Moment::from_micros(no),
        arrival: ArrivalNo(no),
        kind: EffectKind::Created,
        key: Some(key.to_owned()),
        operation: None,
        target: format!("rec_{no}"),
    }
}

#[test]
fn a_full_ledger_drops_its_oldest_entries_and_keeps_its_totals() {
    let mut ledger = Ledger::new(2);
    for no in 1..=3 {
        ledger.arrive(arrival(no, Verdict::Accepted));
        ledger.effect(effect(no, &format!("k{no}")));
    }
    ledger.arrive(arrival(4, Verdict::Refused("requests".to_owned())));
    let numbers: Vec<u64> = ledger.arrivals().map(|a| a.no.0).collect();
    assert_eq!(numbers, [3, 4]);
    let totals = ledger.totals();
    assert_eq!((totals.arrived, totals.accepted, totals.refused), (4, 3, 1));
    assert_eq!((totals.arrivals_dropped, totals.effects_dropped), (2, 1));
    assert_eq!((totals.effects, totals.uncounted), (3, 1));
    ledger.finish(ArrivalNo(1), Moment::START, Finish::Answered);
    ledger.finish(ArrivalNo(4), Moment::from_micros(99), Finish::Cut);
    ledger.finish(ArrivalNo(4), Moment::from_micros(100), Finish::Answered);
    let ended: Vec<_> = ledger.arrivals().map(|a| a.ended.map(|e| e.how)).collect();
    assert_eq!(ended, [None, Some(Finish::Cut)]);
}

#[test]
fn a_second_effect_under_one_key_shows() {
    let mut ledger = Ledger::default();
    ledger.effect(effect(1, "a"));
    assert_eq!((ledger.effects_of_key("a"), ledger.effects_most()), (1, 1));
    ledger.effect(effect(2, "a"));
    assert_eq!((ledger.effects_of_key("a"), ledger.effects_most()), (2, 2));
}

#[test]
fn the_json_names_units_and_no_secret() {
    let mut ledger = Ledger::default();
    ledger.arrive(arrival(1, Verdict::Faulted("half_body".to_owned())));
    ledger.finish(ArrivalNo(1), Moment::from_micros(70), Finish::Cut);
    let json = serde_json::to_value(&ledger).expect("it is plain data");
    let first = &json["arrivals"][0];
    assert_eq!((&first["no"], &first["at_us"]), (&1.into(), &10.into()));
    assert_eq!(
        (&first["verdict"], &first["by"]),
        (&"faulted".into(), &"half_body".into())
    );
    assert_eq!(
        (&first["ended"], &first["ended_at_us"]),
        (&"cut".into(), &70.into())
    );
    assert!(!json.to_string().contains("secret"));
}

#[test]
fn the_marks_are_those_of_sdks_and_of_a_leaking_governor() {
    let fields = [
        ("X-Stainless-Retry-Count", "1"),
        ("Rategov-Task", "t"),
        ("Authorization", "Bearer secret"),
    ];
    let marks = marks_of(&fields.into_iter().collect());
    let names: Vec<&str> = marks.keys().map(String::as_str).collect();
    assert_eq!(names, ["rategov-task", "x-stainless-retry-count"]);
}
