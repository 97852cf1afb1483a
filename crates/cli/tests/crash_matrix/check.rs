//! What must hold in every case, whatever died when.
//!
//! | promise | seen by |
//! |---|---|
//! | at most one effect | the provider's ledger |
//! | one key, one payload, one credential on every attempt | the provider's ledger |
//! | an uncertain write is not sent again unless it was surely not processed | the provider's ledger |
//! | what can be looked up is looked up before it is sent again in doubt | the provider's ledger |
//! | every attempt that arrived is recorded | ledger against the action's attempts |
//! | what was recorded is found by its key | the agents' interface |
//! | done means one effect, failed and cancelled mean none | ledger against the action's state |
//! | attempts and look-ups stay within the class's budget, restarts included | the action |
//! | a look-up settles by itself what can be looked up | the action's state |
//! | a key that its provider honours is sent again by itself | the action's attempts |
//! | a repeat of the call joins or gets the result, it is not sent again | ledger before and after |
//! | nothing is left: no send that is out, no runner of what has ended | the metrics |
//! | a key with another payload is refused | the answer, and the ledger |

use rategov_sim::fake_provider::Handle;
use rategov_sim::provider::ledger::{Arrival, Verdict, label_of};
use serde_json::Value;

use super::life::Settled;
use super::plan::Kind;
use super::support::caller::{Heard, Unheard};
use super::support::governor::Governor;
use super::support::home::{LOOKUPS_MAX, SECRET};
use super::support::wait::Wait;

/// The writes that arrived at a provider.
pub(crate) fn posts(provider: &Handle) -> Vec<Arrival> {
    let ledger = provider.ledger();
    ledger
        .arrivals()
        .filter(|arrival| arrival.method == "POST")
        .cloned()
        .collect()
}

/// The provider's view of a case, and what contradicts it.
pub(crate) struct Facts<'p> {
    provider: &'p Handle,
    kind: Kind,
    key: &'p str,
    /// What is wrong.
    pub(crate) findings: Vec<String>,
}

impl<'p> Facts<'p> {
    /// Nothing is wrong yet.
    pub(crate) fn new(provider: &'p Handle, kind: Kind, key: &'p str) -> Facts<'p> {
        Facts {
            provider,
            kind,
            key,
            findings: Vec::new(),
        }
    }

    /// Effects so far.
    pub(crate) fn effects(&self) -> u64 {
        self.provider.ledger().totals().effects
    }

    fn must(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.findings.push(what());
        }
    }

    /// The governor is up again, and nothing moves.
    pub(crate) fn after_settling(&mut self, settled: &Settled, heard: Option<&Heard>) {
        let posts = posts(self.provider);
        let named = heard.and_then(|heard| heard.header("rategov-action"));
        match settled {
            Settled::As(action) => {
                let attempts = action["attempts"].as_u64().unwrap_or(0);
                self.must(posts.len() as u64 <= attempts, || {
                    format!("{} arrived, {attempts} attempts are recorded", posts.len())
                });
                self.must(named.is_none_or(|named| action["action"] == named), || {
                    format!(
                        "the caller was told of {named:?}, found is {}",
                        action["action"]
                    )
                });
                self.must(action["key"] == self.key, || {
                    format!("the key is {}", action["key"])
                });
                if heard.is_some_and(|heard| heard.status < 300) {
                    self.must(action["state"] == "succeeded", || {
                        format!("the caller got a success, the state is {}", action["state"])
                    });
                }
                self.within_budget(action);
                self.state_is_true(action);
            }
            Settled::Unknown => {
                self.must(posts.is_empty(), || "sent and not recorded".to_owned());
                self.must(named.is_none(), || {
                    format!("{named:?} was told to the caller and is lost")
                });
            }
            Settled::Dead => self.findings.push("the last run died".to_owned()),
            Settled::Never(action) => self.findings.push(format!("it never rests: {action}")),
        }
        self.ledger_is_clean();
    }

    /// What the operators' list shows is the one action.
    pub(crate) async fn listed(&mut self, governor: &Governor) {
        let Ok(heard) = governor.ask("/api/v1/actions").await else {
            self.findings.push("operators get no answer".to_owned());
            return;
        };
        let actions = heard.json()["actions"].as_array().map_or(0, Vec::len);
        self.must(actions <= 1, || {
            format!("one call became {actions} actions")
        });
    }

    /// The caller came back with the same call.
    pub(crate) fn after_repeat(
        &mut self,
        before: &Settled,
        heard: Result<&Heard, &Unheard>,
        after: &Settled,
    ) {
        let sent = posts(self.provider).len();
        let (Settled::As(after), Ok(heard)) = (after, heard) else {
            self.findings
                .push(format!("the repeat got no answer: {:?}", heard.err()));
            return;
        };
        let state = match before {
            Settled::As(action) => action["state"].as_str().unwrap_or_default(),
            _ => "",
        };
        let attempts = after["attempts"].as_u64().unwrap_or(0);
        match state {
            "succeeded" => {
                let told = heard.status < 300 || heard.json()["code"] == "result_lost";
                self.must(told, || {
                    format!("a repeat of what is done got {}", heard.status)
                });
                self.must(sent as u64 <= attempts, || {
                    "what is done was sent again".to_owned()
                });
            }
            "escalated" => {
                let told = &heard.json()["escalation"];
                self.must(heard.status == 424 && *told == after["escalation"], || {
                    format!("a repeat got {} about {told}", heard.status)
                });
                self.must(sent as u64 <= attempts, || {
                    "sent again while a person is asked".to_owned()
                });
            }
            // It certainly had no effect: the same key may be used for it anew.
            _ => self.state_is_true(after),
        }
        self.ledger_is_clean();
    }

    /// The key came with another payload.
    pub(crate) fn after_reuse(&mut self, heard: Result<&Heard, &Unheard>) {
        let status = heard.map(|heard| heard.status);
        self.must(status == Ok(422), || format!("a reused key got {status:?}"));
        self.ledger_is_clean();
    }

    /// A person decided.
    pub(crate) fn after_decision(&mut self, heard: Option<&Heard>, settled: &Settled) {
        let status = heard.map(|heard| heard.status);
        self.must(status == Some(200), || {
            format!("a decision got {status:?} {:?}", heard.map(Heard::json))
        });
        match settled {
            Settled::As(action) => {
                self.must(action["final"] == true, || {
                    format!("decided, but {}", action["state"])
                });
                self.state_is_true(action);
            }
            _ => self.findings.push("a decided action is lost".to_owned()),
        }
        self.ledger_is_clean();
    }

    /// Nothing more is done.
    pub(crate) fn at_the_end(&mut self, settled: &Settled) {
        if let Settled::As(action) = settled {
            self.must(action["final"] == true, || {
                format!("it ends as {}", action["state"])
            });
        }
        self.ledger_is_clean();
    }

    /// Every send that was granted is over, and nobody runs what has ended. The
    /// end is told a moment before its runner is gone.
    pub(crate) async fn nothing_left(&mut self, governor: &Governor, settled: &Settled) {
        let Settled::As(action) = settled else {
            return;
        };
        let runners = f64::from(u8::from(action["final"] != true));
        let wait = Wait::begin();
        loop {
            let Ok(heard) = governor.ask("/metrics").await else {
                return;
            };
            let text = String::from_utf8_lossy(&heard.body).into_owned();
            let sum = |name: &str| -> f64 {
                let of_name = text.lines().filter(|line| line.starts_with(name));
                of_name
                    .filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok())
                    .sum()
            };
            let left = (sum("rategov_on_the_wire"), sum("rategov_runners"));
            if left == (0.0, runners) {
                return;
            }
            if !wait.pause().await {
                self.findings
                    .push(format!("{left:?} are out and run at the end"));
                return;
            }
        }
    }

    /// Whether no restart was a fresh start, and nobody is asked too early.
    fn within_budget(&mut self, action: &Value) {
        let attempts = action["attempts"].as_u64().unwrap_or(u64::MAX);
        let lookups = action["lookups"].as_u64().unwrap_or(u64::MAX);
        let attempts_max = self.kind.attempts_max();
        self.must(attempts <= attempts_max && lookups <= LOOKUPS_MAX, || {
            format!("{attempts} attempts and {lookups} look-ups")
        });
        if self.kind == Kind::Keyed && action["state"] == "escalated" {
            // The list of attempts is read from the tables, which an action in hand
            // can be a moment ahead of.
            let failed = |send: &Value| send["status"] == 500;
            let sends = action["attempts_made"].as_array();
            let failed = failed(action) || sends.is_some_and(|sends| sends.iter().any(failed));
            self.must(failed || attempts == attempts_max, || {
                format!("a person is asked after {attempts} lost attempts under a good key")
            });
        }
    }

    /// Whether a state says what the provider knows.
    fn state_is_true(&mut self, action: &Value) {
        let effects = self.effects();
        let state = action["state"].as_str().unwrap_or_default();
        match state {
            "succeeded" => self.must(effects == 1, || format!("{state} with {effects} effects")),
            "failed_definite" | "cancelled_not_sent" => {
                self.must(effects == 0, || format!("{state} with {effects} effects"));
            }
            "escalated" => {
                let told = action["escalation"].is_string();
                self.must(told, || "a person is asked, but not about what".to_owned());
                self.must(self.kind != Kind::LookedUp, || {
                    "a person is asked although it can be looked up".to_owned()
                });
            }
            _ => self.findings.push(format!("the state is {state}")),
        }
    }

    /// What the ledger alone shows.
    fn ledger_is_clean(&mut self) {
        let effects = self.effects();
        self.must(effects <= 1, || format!("{effects} effects"));
        let posts = posts(self.provider);
        let key = (self.kind != Kind::Uncertain).then(|| self.key.to_owned());
        for arrival in &posts {
            self.must(arrival.key == key, || {
                format!("it arrived with the key {:?}", arrival.key)
            });
            let ours = arrival
                .marks
                .keys()
                .find(|name| name.starts_with("rategov"));
            self.must(ours.is_none(), || {
                format!("{ours:?} leaked to the provider")
            });
            let same =
                arrival.body_sha256 == posts[0].body_sha256 && arrival.target == posts[0].target;
            self.must(same, || "the call under the key has changed".to_owned());
            self.must(arrival.credential == label_of(SECRET), || {
                "an attempt used another credential".to_owned()
            });
        }
        if self.kind == Kind::Uncertain {
            let open = posts.iter().filter(|arrival| may_be_done(arrival)).count();
            self.must(open <= 1, || format!("{open} attempts may have arrived"));
        }
        if self.kind == Kind::LookedUp {
            self.looked_before_each_repeat();
        }
    }

    /// Whether what may have been done was asked about before it was sent again.
    /// The provider would notice the key; one that forgets it would not.
    fn looked_before_each_repeat(&mut self) {
        let ledger = self.provider.ledger();
        let mut in_doubt = false;
        let mut blind = 0;
        for arrival in ledger.arrivals() {
            if arrival.method == "POST" {
                blind += u32::from(in_doubt);
                in_doubt = may_be_done(arrival);
            } else if arrival.verdict == Verdict::Accepted {
                // A look-up that failed says nothing.
                in_doubt = false;
            }
        }
        drop(ledger);
        self.must(blind == 0, || {
            format!("{blind} times sent again in doubt and without a look-up")
        });
    }
}

/// Whether an attempt may have been carried out, as far as its governor can know.
fn may_be_done(arrival: &Arrival) -> bool {
    match &arrival.verdict {
        Verdict::Faulted(by) => by != "429",
        Verdict::Refused(_) => false,
        Verdict::Accepted => true,
    }
}
