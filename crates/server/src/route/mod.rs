//! What a call is: its endpoint, its class, and what is promised about repeats.
//!
//! A [`RouteTable`] is made from the settings and never changes; a new policy is
//! a new table. The route decides everything that follows from provider, method
//! and path, the caller nothing but a stricter class. Cost of a look-up: one map
//! access and a walk over the provider's rules (at most [`RULES_MAX`]) in the order
//! of their precedence, the first match wins; see [`template`] for that order.
//!
//! Rules of the operator come before rules of a preset for the same calls.

pub mod fallback;
pub mod json_path;
pub mod lookup;
pub mod target;
pub mod template;

use std::collections::BTreeMap;
use std::sync::Arc;

use http::HeaderName;
use rategov_core::cost::Cost;
use rategov_core::id::{Endpoint, Provider};
use rategov_core::policy::Profile;
use rategov_core::time::Span;
use rategov_core::word::Class;

use crate::config::settings::Settings;
use json_path::JsonPath;
use lookup::ReconcilePlan;
use template::{Parameters, Template};

/// Most endpoint rules of one provider, its preset's included.
pub const RULES_MAX: usize = 1_000;

/// What is known of an endpoint, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// What a repeat could do.
    pub class: Class,
    /// What the provider promises about repeats.
    pub profile: Arc<Profile>,
    /// The request header that carries the action's key; `None` where none is honoured.
    pub idempotency_header: Option<HeaderName>,
    /// Where the answer names what was created.
    pub operation_id: Option<JsonPath>,
    /// Where the request names it in the caller's terms.
    pub external_ref: Option<JsonPath>,
    /// How to find out what became of a write.
    pub reconcile: Option<ReconcilePlan>,
    /// What one call uses up.
    pub cost: Cost,
    /// Equal reads within this span are one call.
    pub coalesce: Option<Span>,
}

impl Rule {
    /// Nothing is known but the class.
    pub fn bare(class: Class, profile: Arc<Profile>) -> Rule {
        Rule {
            class,
            profile,
            idempotency_header: None,
            operation_id: None,
            external_ref: None,
            reconcile: None,
            cost: Cost::ONE,
            coalesce: None,
        }
    }

    /// The caller's name of what a request is to create; `None` where the body isn't
    /// JSON or doesn't say. Cost: linear in the body.
    pub fn external_ref_in(&self, body: &[u8]) -> Option<String> {
        let path = self.external_ref.as_ref()?;
        let value: serde_json::Value = serde_json::from_slice(body).ok()?;
        path.find_id(&value)
    }
}

/// A rule and the calls it is for.
#[derive(Clone, Debug, PartialEq)]
pub struct EndpointRule {
    /// The calls.
    pub template: Template,
    /// Their name.
    pub endpoint: Endpoint,
    /// What is known of them.
    pub rule: Arc<Rule>,
}

/// What one call is.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// Whose endpoint.
    pub provider: Provider,
    /// Its name, also where no rule matched.
    pub endpoint: Endpoint,
    /// Its class: the rule's, or a stricter one that the caller asked for.
    pub class: Class,
    /// What is known of it.
    pub rule: Arc<Rule>,
    /// The values of the template's names in the call's path, encoding untouched.
    pub parameters: Parameters,
    /// Whether a rule matched.
    pub matched: Matched,
}

/// Where the knowledge about a call comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Matched {
    /// A rule of the configuration or a preset.
    Rule,
    /// Nothing: the safe assumptions of [`fallback`].
    Nothing,
}

/// The caller asked for a class that would allow more than its route does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the call is of class `{own}`, and `{asked}` would allow more")]
pub struct ClassLoosened {
    /// What the route says.
    pub own: Class,
    /// What was asked.
    pub asked: Class,
}

/// How strict a class is; a larger number allows fewer repeats.
const fn strictness(class: Class) -> u8 {
    match class {
        Class::Read => 0,
        Class::Generation => 1,
        Class::IdempotentWrite => 2,
        Class::UncertainWrite => 3,
    }
}

impl Route {
    /// The same call under a class that the caller asked for.
    ///
    /// # Errors
    /// If that class allows more than the route's own: agents tighten, never loosen.
    pub fn tightened(mut self, asked: Option<Class>) -> Result<Route, ClassLoosened> {
        match asked {
            Some(asked) if strictness(asked) < strictness(self.class) => Err(ClassLoosened {
                own: self.class,
                asked,
            }),
            Some(asked) => {
                self.class = asked;
                Ok(self)
            }
            None => Ok(self),
        }
    }
}

/// All routes of one policy.
#[derive(Clone, Debug)]
pub struct RouteTable {
    providers: BTreeMap<Provider, ProviderRoutes>,
}

#[derive(Clone, Debug)]
struct ProviderRoutes {
    prefix: String,
    rules: Vec<EndpointRule>,
    read: Arc<Rule>,
    generation: Arc<Rule>,
    uncertain_write: Arc<Rule>,
}

impl RouteTable {
    /// The routes of a policy.
    pub fn new(settings: &Settings) -> RouteTable {
        let providers = settings.providers.iter().map(|(name, provider)| {
            let mut rules = provider.endpoints.clone();
            // Stable: among equals the operator's rule, which stands first, wins.
            rules.sort_by_cached_key(|rule| rule.template.specificity());
            let profile = Arc::new(provider.unmatched_profile.clone());
            let bare = |class| Arc::new(Rule::bare(class, Arc::clone(&profile)));
            let routes = ProviderRoutes {
                prefix: provider.path_prefix.clone(),
                rules,
                read: bare(Class::Read),
                generation: bare(Class::Generation),
                uncertain_write: bare(Class::UncertainWrite),
            };
            (name.clone(), routes)
        });
        RouteTable {
            providers: providers.collect(),
        }
    }

    /// The providers that exist.
    pub fn providers(&self) -> impl Iterator<Item = &Provider> {
        self.providers.keys()
    }

    /// What a call is; `None` if there is no such provider. `path` is what follows
    /// the provider's name: empty or beginning with `/`, without the query. Rules
    /// see it with the provider's prefix.
    pub fn resolve(&self, provider: &str, method: &str, path: &str) -> Option<Route> {
        let name = Provider::new(provider).ok()?;
        let (provider, routes) = self.providers.get_key_value(&name)?;
        let path = prefixed(&routes.prefix, path);
        let path = path.as_str();
        let found = routes.rules.iter().find_map(|rule| {
            rule.template
                .matches(method, path)
                .map(|parameters| (rule, parameters))
        });
        Some(match found {
            Some((rule, parameters)) => Route {
                provider: provider.clone(),
                endpoint: rule.endpoint.clone(),
                class: rule.rule.class,
                rule: Arc::clone(&rule.rule),
                parameters,
                matched: Matched::Rule,
            },
            None => {
                let class = fallback::class(method, path);
                let rule = match class {
                    Class::Read => &routes.read,
                    Class::Generation => &routes.generation,
                    Class::IdempotentWrite | Class::UncertainWrite => &routes.uncertain_write,
                };
                Route {
                    provider: provider.clone(),
                    endpoint: fallback::endpoint(method, path),
                    class,
                    rule: Arc::clone(rule),
                    parameters: Parameters::new(),
                    matched: Matched::Nothing,
                }
            }
        })
    }
}

/// The path with the prefix before it, unless it begins with the prefix already.
///
/// Worked: for the prefix `/v1`, `/v1/models` stays, `/models` becomes
/// `/v1/models`, and so does `/v10` become `/v1/v10`.
pub(crate) fn prefixed(prefix: &str, path: &str) -> String {
    match path.strip_prefix(prefix) {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => path.to_owned(),
        _ => format!("{prefix}{path}"),
    }
}

/// The model that a call names: a `{model}` of its path, else the top-level
/// `model` of its JSON body. `None` where there is none, the body isn't JSON, or
/// the name can't be one (longer than 200 bytes, or not printable ASCII).
/// Cost: linear in the body.
pub fn model_of(parameters: &Parameters, body: &[u8]) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Named<'b> {
        #[serde(borrow)]
        model: Option<std::borrow::Cow<'b, str>>,
    }
    let in_path = parameters
        .iter()
        .find(|(name, _)| name == "model")
        .map(|(_, value)| value.clone());
    let name = match in_path {
        Some(name) => name,
        None => serde_json::from_slice::<Named<'_>>(body)
            .ok()?
            .model?
            .into_owned(),
    };
    let fits = (1..=160).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_graphic());
    fits.then_some(name)
}

#[cfg(test)]
mod tests;
