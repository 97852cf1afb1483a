//! Endpoint templates: `POST /records/{id}`.
//!
//! ```text
//! template = method SP path
//! method   = "*" / token                    ; upper case
//! path     = "*" / 1*( "/" segment )
//! segment  = literal / [literal] "{" name "}" [literal] / "*"
//! ```
//!
//! `{name}` is one whole segment, or the middle of one (`{model}:generateContent`);
//! `*` is one segment without a name; a `*` at the end is everything that
//! follows, at least one segment; the path `*` is every path. Nothing is
//! normalised before matching: a `%2F` splits no segment, and a trailing slash
//! is an empty segment of its own. Only the spelling of one character is looked
//! through: `%72ecords` is `records` (RFC 3986 §6.2.2.2), and `m%3AgenerateContent`
//! ends in `:generateContent`, so that a rule can't be dodged by writing its path in
//! another way.
//!
//! **Precedence.** Where several templates match, the more specific wins,
//! compared segment by segment from the left:
//!
//! | rank | segment | example |
//! |---|---|---|
//! | 0 | literal | `records` |
//! | 1 | part of a segment | `{model}:generateContent` |
//! | 2 | one segment | `{id}`, `*` |
//! | 3 | the rest | a last `*` |
//!
//! then a named method before `*`. Worked: for `GET /records/latest`, the
//! template `GET /records/latest` (0,0) beats `GET /records/{id}` (0,2), which
//! beats `GET /records/*` (0,3), which beats `* *` (3).

use std::fmt;

/// Most segments of a template; a path may have more, which only a last `*` matches.
const SEGMENTS_MAX: usize = 32;

/// A template, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    text: String,
    method: Option<String>,
    segments: Vec<Segment>,
}

/// One segment of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Segment {
    Literal(String),
    Part {
        before: String,
        name: String,
        after: String,
    },
    One {
        name: Option<String>,
    },
    Rest,
}

/// How specific a template is; smaller is more specific, see the module's table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Specificity {
    segments: Vec<u8>,
    any_method: u8,
}

/// Values of a template's names in one path, percent-encoding untouched.
pub type Parameters = Vec<(String, String)>;

impl Template {
    /// Reads a template.
    ///
    /// # Errors
    /// The cause, and a hint on a line of its own.
    pub fn parse(text: &str) -> Result<Template, String> {
        let form = "write `METHOD /path`, such as `GET /records/{id}`";
        let (method, path) = text
            .split_once(' ')
            .ok_or_else(|| format!("an endpoint needs a method and a path\nhint: {form}"))?;
        let path = path.trim();
        let method = match method {
            "*" => None,
            word if is_method(word) => Some(word.to_owned()),
            word if is_method(&word.to_ascii_uppercase()) => {
                let upper = word.to_ascii_uppercase();
                return Err(format!(
                    "methods are written in capitals\nhint: did you mean `{upper} {path}`?"
                ));
            }
            _ => {
                return Err(format!(
                    "the method of an endpoint is a word or `*`\nhint: {form}"
                ));
            }
        };
        let segments = parse_path(path)?;
        Ok(Template {
            text: format!("{} {path}", method.as_deref().unwrap_or("*")),
            method,
            segments,
        })
    }

    /// The template as text, in its one spelling.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The method; `None` for every method.
    pub fn method(&self) -> Option<&str> {
        self.method.as_deref()
    }

    /// The names it binds, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.segments.iter().filter_map(|segment| match segment {
            Segment::Part { name, .. } | Segment::One { name: Some(name) } => Some(name.as_str()),
            _ => None,
        })
    }

    /// Its rank among templates that match the same call.
    pub fn specificity(&self) -> Specificity {
        let segments = self.segments.iter().map(|segment| match segment {
            Segment::Literal(_) => 0,
            Segment::Part { .. } => 1,
            Segment::One { .. } => 2,
            Segment::Rest => 3,
        });
        Specificity {
            segments: segments.collect(),
            any_method: u8::from(self.method.is_none()),
        }
    }

    /// Whether both match exactly the same calls, whatever their names are called.
    pub fn same_calls(&self, other: &Template) -> bool {
        let shape = |template: &Template| {
            let segments = template.segments.iter().map(|segment| match segment {
                Segment::Part { before, after, .. } => Segment::Part {
                    before: before.clone(),
                    name: String::new(),
                    after: after.clone(),
                },
                Segment::One { .. } => Segment::One { name: None },
                other => other.clone(),
            });
            (template.method.clone(), segments.collect::<Vec<_>>())
        };
        shape(self) == shape(other)
    }

    /// The values of its names if it matches; `None` if it doesn't. `path` begins
    /// with `/` (or is empty) and has no query. Cost: linear in the path.
    pub fn matches(&self, method: &str, path: &str) -> Option<Parameters> {
        if self.method.as_deref().is_some_and(|own| own != method) {
            return None;
        }
        let mut parameters = Vec::new();
        let mut rest = path.strip_prefix('/').map(|path| path.split('/'));
        for segment in &self.segments {
            if *segment == Segment::Rest {
                // At least one segment; the path `*` alone also matches none.
                let some_follow = rest.as_mut().is_some_and(|rest| rest.next().is_some());
                return (some_follow || self.segments.len() == 1).then_some(parameters);
            }
            let actual = rest.as_mut()?.next()?;
            match segment {
                Segment::Literal(literal) if same(literal, actual) => {}
                Segment::Part {
                    before,
                    name,
                    after,
                } => {
                    let value = between(before, actual, after)?;
                    if value.is_empty() {
                        return None;
                    }
                    parameters.push((name.clone(), value.to_owned()));
                }
                Segment::One { name } if !actual.is_empty() => {
                    if let Some(name) = name {
                        parameters.push((name.clone(), actual.to_owned()));
                    }
                }
                _ => return None,
            }
        }
        let finished = rest.is_none_or(|mut rest| rest.next().is_none());
        finished.then_some(parameters)
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn is_method(word: &str) -> bool {
    (1..=20).contains(&word.len()) && word.bytes().all(|b| b.is_ascii_uppercase() || b == b'-')
}

fn parse_path(path: &str) -> Result<Vec<Segment>, String> {
    if path == "*" {
        return Ok(vec![Segment::Rest]);
    }
    let Some(path) = path.strip_prefix('/') else {
        return Err("the path of an endpoint begins with `/`".to_owned());
    };
    if path.contains(['?', '#']) {
        return Err("the path of an endpoint has no query\nhint: queries are ignored when matching; leave it out".to_owned());
    }
    let texts: Vec<&str> = path.split('/').collect();
    if texts.len() > SEGMENTS_MAX {
        return Err(format!(
            "the path of an endpoint has at most {SEGMENTS_MAX} segments"
        ));
    }
    let last = texts.len() - 1;
    let mut segments = Vec::new();
    for (index, text) in texts.into_iter().enumerate() {
        segments.push(parse_segment(text, index == last)?);
    }
    let template = Template {
        text: String::new(),
        method: None,
        segments,
    };
    let mut names: Vec<&str> = template.names().collect();
    names.sort_unstable();
    if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(format!("`{{{}}}` stands twice in one endpoint", twice[0]));
    }
    Ok(template.segments)
}

fn parse_segment(text: &str, last: bool) -> Result<Segment, String> {
    if text == "*" {
        return Ok(if last {
            Segment::Rest
        } else {
            Segment::One { name: None }
        });
    }
    if matches!(text, "." | "..") {
        return Err("an endpoint can't hold `.` or `..`: such calls are refused".to_owned());
    }
    let Some((before, rest)) = text.split_once('{') else {
        return match text
            .chars()
            .find(|c| !c.is_ascii_graphic() || matches!(c, '}' | '*' | '\\'))
        {
            Some(c) => Err(format!(
                "an endpoint's path can't hold {c:?}\nhint: write `{{name}}` for a segment that varies"
            )),
            None => Ok(Segment::Literal(text.to_owned())),
        };
    };
    let wrong = || format!("`{text}` is not a segment\nhint: write one `{{name}}` in a segment");
    let (name, after) = rest.split_once('}').ok_or_else(wrong)?;
    let named = !name.is_empty()
        && name.len() <= 64
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    let literal = |part: &str| {
        part.chars()
            .all(|c| c.is_ascii_graphic() && !"{}*\\".contains(c))
    };
    match (before, after) {
        _ if !named || !literal(before) || !literal(after) => Err(wrong()),
        ("", "") => Ok(Segment::One {
            name: Some(name.to_owned()),
        }),
        _ => Ok(Segment::Part {
            before: before.to_owned(),
            name: name.to_owned(),
            after: after.to_owned(),
        }),
    }
}

/// Whether a segment of a path spells a literal, with or without percent-encoding.
fn same(literal: &str, actual: &str) -> bool {
    if !actual.contains('%') {
        return literal == actual;
    }
    let bytes = |text: &str| units(text).map(|(byte, _)| byte).collect::<Vec<_>>();
    bytes(literal) == bytes(actual)
}

/// What stands between two literals, as it was sent; `None` if they don't stand there.
fn between<'a>(before: &str, actual: &'a str, after: &str) -> Option<&'a str> {
    if !actual.contains('%') {
        return actual.strip_prefix(before)?.strip_suffix(after);
    }
    let (before, after): (Vec<_>, Vec<_>) = (units(before).collect(), units(after).collect());
    let all: Vec<_> = units(actual).collect();
    let inner = all.len().checked_sub(before.len() + after.len())?;
    let (head, rest) = all.split_at(before.len());
    let (value, tail) = rest.split_at(inner);
    let spell = |units: &[Unit<'_>], literal: &[Unit<'_>]| {
        units.iter().zip(literal).all(|(unit, it)| unit.0 == it.0)
    };
    let length = |units: &[Unit<'_>]| units.iter().map(|unit| unit.1.len()).sum::<usize>();
    (spell(head, &before) && spell(tail, &after))
        .then(|| &actual[length(head)..length(head) + length(value)])
}

/// A byte with its spelling; no byte where the spelling is no ASCII, which no literal is.
type Unit<'t> = (Option<u8>, &'t str);

/// The bytes that a text spells: `%41` is `A`. A `%` without its two digits stands for
/// itself.
fn units(text: &str) -> impl Iterator<Item = Unit<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let first = *rest.as_bytes().first()?;
        let digits = rest.get(1..3).filter(|_| first == b'%');
        let is_code = |digits: &&str| digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let code = digits.filter(is_code);
        let code = code.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let length = match code {
            Some(_) => 3,
            None => rest.chars().next().map_or(1, char::len_utf8),
        };
        let (spelt, after) = rest.split_at(length);
        rest = after;
        Some((code.or_else(|| first.is_ascii().then_some(first)), spelt))
    })
}

#[cfg(test)]
mod tests;
