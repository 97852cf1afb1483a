//! What is declared of each scope of a kind.

use super::{account, quota, scope, secs, send_on, stage};
use crate::ledger::Ledger;
use crate::policy::{AccountPolicy, ScopeLimits, WindowKind};

#[test]
fn what_holds_for_each_scope_of_a_kind_is_not_taken_for_one_with_a_star_in_its_name() {
    let one_a_minute = ScopeLimits {
        quotas: vec![quota(1, 60, WindowKind::Sliding)],
        max_concurrent: None,
    };
    let check = |declared: &str, limited: &[&str], free: &[&str]| {
        let policy = AccountPolicy {
            scopes: vec![(scope(declared), one_a_minute.clone())],
            ..AccountPolicy::default()
        };
        let goes_twice = |name: &str| {
            let mut ledger = Ledger::new(account(), &policy);
            let scopes = [account(), scope(name)];
            send_on(&mut ledger, secs(100), &scopes);
            stage(&ledger, secs(100), &scopes).is_ok()
        };
        assert!(!limited.iter().any(|name| goes_twice(name)), "{declared}");
        assert!(free.iter().all(|name| goes_twice(name)), "{declared}");
    };
    let files = "endpoint:GET /files/*";
    check("model:*", &["model:a", "model:b"], &[files]);
    check("endpoint:*", &[files, "endpoint:POST /jobs"], &["model:a"]);
    check(files, &[files], &["endpoint:GET /records", "model:a"]);
    check(
        "endpoint:POST /v1/{model}:*",
        &["endpoint:POST /v1/{model}:*"],
        &["endpoint:POST /jobs"],
    );
}
