//! Which calls are meant: a method and a path, `*` standing for anything.
//!
//! `POST /records*` means POSTs below `/records`; `* /v1/messages` any method;
//! `*` every call. The query is no part of the path.

/// A method and a path, both possibly with `*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    method: String,
    path: String,
}

impl Pattern {
    /// Reads `METHOD PATH`, or a path alone for any method.
    pub fn parse(text: &str) -> Pattern {
        let text = text.trim();
        let (method, path) = text.split_once(' ').unwrap_or(("*", text));
        Pattern {
            method: method.to_owned(),
            path: path.trim().to_owned(),
        }
    }

    /// Every call.
    pub fn any() -> Pattern {
        Pattern::parse("*")
    }

    /// Whether a call of this method and path is meant.
    pub fn matches(&self, (method, path): (&str, &str)) -> bool {
        glob(self.method.as_bytes(), method.as_bytes())
            && glob(self.path.as_bytes(), path.as_bytes())
    }
}

impl std::fmt::Display for Pattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.method, self.path)
    }
}

/// Whether `text` fits `pattern`. Remembers only the last star, which is
/// enough for a language of stars and letters: O(pattern · text), no recursion.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            star = Some((p, t));
            p += 1;
        } else if pattern.get(p) == Some(&text[t]) {
            p += 1;
            t += 1;
        } else if let Some((at, taken)) = star {
            (p, t) = (at + 1, taken + 1);
            star = Some((at, taken + 1));
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|b| *b == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_anything_and_letters_for_themselves() {
        for (pattern, call, expected) in [
            ("*", ("GET", "/x"), true),
            ("/records", ("POST", "/records"), true),
            ("POST /records", ("GET", "/records"), false),
            ("POST /records", ("POST", "/records/7"), false),
            ("POST /records*", ("POST", "/records/7"), true),
            ("P* /v1/*/runs", ("PUT", "/v1/a/b/runs"), true),
            ("P* /v1/*/runs", ("PUT", "/v1/a/b/run"), false),
            ("GET /a*a*a", ("GET", "/aaa"), true),
            ("GET /a*a*a", ("GET", "/aa"), false),
        ] {
            assert_eq!(
                Pattern::parse(pattern).matches(call),
                expected,
                "{pattern} on {call:?}"
            );
        }
    }
}
