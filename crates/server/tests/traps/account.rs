//! An account of a provider in virtual time: its preset reads the answers, and the
//! ledger says who may call when.
//!
//! Worked: `hear` sends one call on its scopes and gives it an answer 10 ms later;
//! `wait` is how long the next call has to stay, zero if it may go at once.

use rategov_core::cost::Cost;
use rategov_core::id::{Credential, Endpoint, Scope};
use rategov_core::ledger::{Call, Ledger, PermitId, Reason};
use rategov_core::observe::Facts;
use rategov_core::time::{Draw, Moment, Span};
use rategov_core::word::Priority;
use rategov_server::config;
use rategov_server::config::settings::{AccountRules, ProviderSettings, ScopedCall};

use super::facts;

/// Its settings as a configuration that names it has them; `more` are further lines.
pub(crate) fn settings(provider: &str, more: &str) -> ProviderSettings {
    let text = format!(
        "providers:\n  it:\n    preset: {provider}\n    base_url: https://provider.example\n{more}"
    );
    let loaded = config::read("rategov.yaml", &text).unwrap();
    loaded.settings.providers.into_values().next().unwrap()
}

/// See the module.
pub(crate) struct Account {
    provider: &'static str,
    rules: AccountRules,
    pub(crate) ledger: Ledger,
}

impl Account {
    /// An account of which nothing is declared.
    pub(crate) fn of(provider: &'static str) -> Account {
        let rules = settings(provider, "").undeclared;
        Account::ruled(provider, rules)
    }

    /// An account with these quotas: `{ dimension: requests, limit: 10, window: 60s }`.
    pub(crate) fn with_quotas(provider: &'static str, quotas: &str) -> Account {
        let more =
            format!("    accounts:\n      ops: {{ credential: env:KEY, quotas: [{quotas}] }}\n");
        let account = settings(provider, &more).accounts.swap_remove(0);
        Account::ruled(provider, account.rules)
    }

    fn ruled(provider: &'static str, rules: AccountRules) -> Account {
        let policy = rules.policy("ops").unwrap();
        let ledger = Ledger::new(Scope::new("account:ops").unwrap(), &policy);
        Account {
            provider,
            rules,
            ledger,
        }
    }

    /// The scopes of a call to an endpoint for a model.
    pub(crate) fn scopes(&self, endpoint: &str, model: &str) -> Vec<Scope> {
        let call = ScopedCall {
            endpoint: &Endpoint::new(endpoint).unwrap(),
            model: Some(model),
            credential: Some(&Credential::new("it/ops#1").unwrap()),
        };
        self.rules.scopes("ops", &call)
    }

    /// What stands in the way of a read.
    pub(crate) fn block(&self, now: Moment, to: (&str, &str)) -> Option<(Reason, Moment)> {
        self.blocked(now, to, Cost::ONE)
    }

    pub(crate) fn blocked(
        &self,
        now: Moment,
        (endpoint, model): (&str, &str),
        cost: Cost,
    ) -> Option<(Reason, Moment)> {
        let scopes = self.scopes(endpoint, model);
        let blocked = self.ledger.block(now, &read(&scopes, cost))?;
        Some((blocked.reason, blocked.until))
    }

    /// How long a read has to stay; zero if it may go at once.
    pub(crate) fn wait(&self, now: Moment, to: (&str, &str)) -> Span {
        self.block(now, to)
            .map_or(Span::ZERO, |(_, until)| until.since(now))
    }

    /// A call leaves.
    #[track_caller]
    pub(crate) fn send(&mut self, now: Moment, to: (&str, &str)) -> PermitId {
        self.send_costing(now, to, Cost::ONE)
    }

    #[track_caller]
    pub(crate) fn send_costing(
        &mut self,
        now: Moment,
        (endpoint, model): (&str, &str),
        cost: Cost,
    ) -> PermitId {
        let scopes = self.scopes(endpoint, model);
        let staged = self.ledger.stage(now, &read(&scopes, cost)).unwrap();
        let permit = self.ledger.secure(now, staged);
        self.ledger.sent(now, permit);
        permit
    }

    /// Its answer arrives, and that is its end.
    pub(crate) fn answer(
        &mut self,
        now: Moment,
        permit: PermitId,
        (status, fields, body): (u16, &[(&str, &str)], &str),
    ) -> Facts {
        let facts = facts(self.provider, status, fields, body);
        self.ledger.answered(now, Draw::ZERO, permit, &facts);
        self.ledger.finished(now, permit);
        facts
    }

    /// A call leaves and is answered 10 ms later. Gives the moment of that.
    #[track_caller]
    pub(crate) fn hear(
        &mut self,
        now: Moment,
        to: (&str, &str),
        says: (u16, &[(&str, &str)], &str),
    ) -> Moment {
        let permit = self.send(now, to);
        let then = now + Span::from_millis(10);
        self.answer(then, permit, says);
        then
    }

    /// So many calls may leave at once.
    pub(crate) fn burst(&mut self, now: Moment, to: (&str, &str)) -> usize {
        let mut sent = 0;
        while sent < 10_000 && self.block(now, to).is_none() {
            self.send(now, to);
            sent += 1;
        }
        sent
    }

    /// How many calls reach a provider that refuses them all like this, with a crowd
    /// at the door all the time.
    pub(crate) fn reach_a_wall(
        &mut self,
        from: Moment,
        lasts: Span,
        to: (&str, &str),
        says: (u16, &[(&str, &str)], &str),
    ) -> usize {
        let (mut now, mut sent) = (from, 0);
        while now < from + lasts && sent < 100_000 {
            self.ledger.handle_timeout(now, Draw::ZERO);
            match self.block(now, to) {
                None => {
                    now = self.hear(now, to, says);
                    sent += 1;
                }
                Some((_, Moment::NEVER)) => now = self.ledger.next_change(now),
                Some((_, until)) => now = until.max(now + Span::from_micros(1)),
            }
        }
        sent
    }
}

fn read(scopes: &[Scope], cost: Cost) -> Call<'_> {
    Call {
        scopes,
        cost,
        estimate: None,
        priority: Priority::Normal,
        probe_safe: true,
    }
}

pub(crate) fn at(secs: u64) -> Moment {
    Moment::START + Span::from_secs(secs)
}
