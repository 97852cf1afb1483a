//! One form for JSON texts that mean the same, so that white space and the order
//! of fields don't make two calls look different.
//!
//! `{ "b": [1, 2],  "a": "\u0041" }` becomes `{"a":"A","b":[1,2]}`. Members are
//! sorted by their decoded name (members of one name keep their order, because
//! it can matter to the provider); strings are decoded and written one way;
//! numbers stay as written, because `1.0` and `1` can mean different things.
//!
//! Bounded: texts above [`BYTES_MAX`], deeper than [`DEPTH_MAX`] or of more than
//! [`NODES_MAX`] values, and whatever is not JSON (RFC 8259), are left alone.
//! Cost O(n log n).

/// Longest text that is looked into, in bytes.
pub const BYTES_MAX: usize = 4 * 1024 * 1024;

/// Deepest nesting that is followed.
pub const DEPTH_MAX: usize = 64;

/// Most values that are looked into.
pub const NODES_MAX: usize = 65_536;

/// The canonical form, or `None` if the text is not JSON or exceeds a bound.
pub fn json(text: &[u8]) -> Option<Vec<u8>> {
    if text.len() > BYTES_MAX {
        return None;
    }
    let text = std::str::from_utf8(text).ok()?;
    let mut reader = Reader {
        rest: text,
        nodes: 0,
    };
    let value = reader.value(0)?;
    reader.space();
    if !reader.rest.is_empty() {
        return None;
    }
    let mut out = String::with_capacity(text.len());
    value.write(&mut out);
    Some(out.into_bytes())
}

enum Value<'a> {
    /// A number, `true`, `false` or `null`, as written.
    Plain(&'a str),
    /// A string in its one form, quotes included.
    Text(String),
    Array(Vec<Value<'a>>),
    /// Members, sorted by name.
    Object(Vec<(String, Value<'a>)>),
}

impl Value<'_> {
    fn write(&self, out: &mut String) {
        match self {
            Value::Plain(text) => out.push_str(text),
            Value::Text(text) => out.push_str(text),
            Value::Array(items) => {
                out.push('[');
                for (n, item) in items.iter().enumerate() {
                    if n > 0 {
                        out.push(',');
                    }
                    item.write(out);
                }
                out.push(']');
            }
            Value::Object(members) => {
                out.push('{');
                for (n, (name, value)) in members.iter().enumerate() {
                    if n > 0 {
                        out.push(',');
                    }
                    out.push_str(name);
                    out.push(':');
                    value.write(out);
                }
                out.push('}');
            }
        }
    }
}

/// Reads the grammar of RFC 8259, nothing more.
struct Reader<'a> {
    rest: &'a str,
    nodes: usize,
}

impl<'a> Reader<'a> {
    /// value = false / null / true / object / array / number / string
    fn value(&mut self, depth: usize) -> Option<Value<'a>> {
        self.nodes += 1;
        if depth > DEPTH_MAX || self.nodes > NODES_MAX {
            return None;
        }
        self.space();
        match self.rest.bytes().next()? {
            b'{' => self.object(depth),
            b'[' => self.array(depth),
            b'"' => self.string().map(Value::Text),
            b't' => self.literal("true"),
            b'f' => self.literal("false"),
            b'n' => self.literal("null"),
            _ => self.number(),
        }
    }

    /// object = "{" [ member *( "," member ) ] "}"; member = string ":" value
    fn object(&mut self, depth: usize) -> Option<Value<'a>> {
        self.eat('{')?;
        let mut members = Vec::new();
        if self.eat('}').is_none() {
            loop {
                self.space();
                let name = self.string()?;
                self.eat(':')?;
                members.push((name, self.value(depth + 1)?));
                if self.eat(',').is_none() {
                    break;
                }
            }
            self.eat('}')?;
        }
        members.sort_by(|a, b| a.0.cmp(&b.0));
        Some(Value::Object(members))
    }

    /// array = "[" [ value *( "," value ) ] "]"
    fn array(&mut self, depth: usize) -> Option<Value<'a>> {
        self.eat('[')?;
        let mut items = Vec::new();
        if self.eat(']').is_none() {
            loop {
                items.push(self.value(depth + 1)?);
                if self.eat(',').is_none() {
                    break;
                }
            }
            self.eat(']')?;
        }
        Some(Value::Array(items))
    }

    fn literal(&mut self, word: &'static str) -> Option<Value<'a>> {
        self.rest = self.rest.strip_prefix(word)?;
        Some(Value::Plain(word))
    }

    /// number = [ "-" ] int [ "." 1*DIGIT ] [ ("e" / "E") [ "-" / "+" ] 1*DIGIT ]
    fn number(&mut self) -> Option<Value<'a>> {
        let bytes = self.rest.as_bytes();
        let digits = |from: usize| {
            let end = bytes[from..].iter().position(|b| !b.is_ascii_digit());
            end.map_or(bytes.len(), |n| from + n)
        };
        let start = usize::from(bytes.first() == Some(&b'-'));
        let mut end = digits(start);
        if end == start || (bytes[start] == b'0' && end > start + 1) {
            return None;
        }
        if bytes.get(end) == Some(&b'.') {
            let fraction = digits(end + 1);
            if fraction == end + 1 {
                return None;
            }
            end = fraction;
        }
        if matches!(bytes.get(end), Some(b'e' | b'E')) {
            let from = end + 1 + usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
            let exponent = digits(from.min(bytes.len()));
            if exponent <= from {
                return None;
            }
            end = exponent;
        }
        let (number, rest) = self.rest.split_at(end);
        self.rest = rest;
        Some(Value::Plain(number))
    }

    /// A string in its one form: quotes, `\"`, `\\` and control characters
    /// escaped, everything else as itself. A lone surrogate, which no character
    /// can stand for, stays an escape.
    fn string(&mut self) -> Option<String> {
        let mut chars = self.rest.strip_prefix('"')?.chars();
        let mut out = String::from('"');
        loop {
            match chars.next()? {
                '"' => break,
                '\\' => match chars.next()? {
                    'b' => push(&mut out, '\u{8}'),
                    'f' => push(&mut out, '\u{c}'),
                    'n' => push(&mut out, '\n'),
                    'r' => push(&mut out, '\r'),
                    't' => push(&mut out, '\t'),
                    'u' => unicode(&mut chars, &mut out)?,
                    c @ ('"' | '\\' | '/') => push(&mut out, c),
                    _ => return None,
                },
                c if c < ' ' => return None,
                c => push(&mut out, c),
            }
        }
        self.rest = chars.as_str();
        out.push('"');
        Some(out)
    }

    fn space(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\n', '\r']);
    }

    /// A structural character with white space around it.
    fn eat(&mut self, expected: char) -> Option<()> {
        self.space();
        self.rest = self.rest.strip_prefix(expected)?;
        self.space();
        Some(())
    }
}

fn push(out: &mut String, c: char) {
    match c {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        c if c < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
        c => out.push(c),
    }
}

fn unicode(chars: &mut std::str::Chars<'_>, out: &mut String) -> Option<()> {
    let unit = hex4(chars)?;
    if let Some(c) = char::from_u32(unit) {
        push(out, c);
        return Some(());
    }
    // Half of a pair: look for the other half without taking it yet.
    if unit < 0xdc00 {
        let mut ahead = chars.clone();
        if ahead.next() == Some('\\') && ahead.next() == Some('u') {
            let low = hex4(&mut ahead)?;
            if (0xdc00..0xe000).contains(&low) {
                let code = 0x1_0000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
                push(out, char::from_u32(code)?);
                *chars = ahead;
                return Some(());
            }
        }
    }
    out.push_str(&format!("\\u{unit:04x}"));
    Some(())
}

fn hex4(chars: &mut std::str::Chars<'_>) -> Option<u32> {
    (0..4).try_fold(0, |unit, _| Some(unit * 16 + chars.next()?.to_digit(16)?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str, expected: Option<&str>) {
        let got = json(text.as_bytes()).map(|bytes| String::from_utf8(bytes).unwrap());
        assert_eq!(got.as_deref(), expected, "{text}");
    }

    #[test]
    fn white_space_field_order_and_escapes_make_no_difference() {
        check(
            r#"{ "b": [1, 2],  "a": "\u0041" }"#,
            Some(r#"{"a":"A","b":[1,2]}"#),
        );
        check("\t[ true ,\r\nfalse,null ] ", Some("[true,false,null]"));
        check(
            r#"{"x":{"d":1,"c":{}},"a":[]}"#,
            Some(r#"{"a":[],"x":{"c":{},"d":1}}"#),
        );
        check(r#""\/\ud83d\ude00\n""#, Some("\"/\u{1f600}\\u000a\""));
    }

    #[test]
    fn what_can_mean_something_else_stays_different() {
        check("1.0", Some("1.0"));
        check("1", Some("1"));
        check("-0.5e+7", Some("-0.5e+7"));
        check("[2,1]", Some("[2,1]"));
        check(r#"{"a":1,"a":2}"#, Some(r#"{"a":1,"a":2}"#));
        check(r#"{"a":2,"a":1}"#, Some(r#"{"a":2,"a":1}"#));
        check(r#""\ud800""#, Some(r#""\ud800""#));
        check(r#""\\ud800""#, Some(r#""\\ud800""#));
        check(r#""\ud800\u0041""#, Some(r#""\ud800A""#));
        check(r#""\udc00""#, Some(r#""\udc00""#));
    }

    #[test]
    fn what_is_not_json_is_left_alone() {
        for text in [
            "",
            " ",
            "{",
            "}",
            "[1,]",
            "[1 2]",
            "{\"a\"}",
            "{\"a\":}",
            "{a:1}",
            "{\"a\":1,}",
            "01",
            "-",
            "1.",
            "1e",
            "1e+",
            ".5",
            "+1",
            "tru",
            "nulll",
            "\"",
            "\"\\x\"",
            "\"\\u12\"",
            "\"\u{1}\"",
            "1 2",
            "'a'",
            "NaN",
            "\u{feff}1",
        ] {
            check(text, None);
        }
        assert_eq!(json(b"\"\xff\""), None);
    }

    #[test]
    fn bounds_hold_and_the_stack_stays_small() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(json(nested(DEPTH_MAX + 1).as_bytes()).is_some());
        assert!(json(nested(DEPTH_MAX + 2).as_bytes()).is_none());
        assert!(json("[".repeat(1_000_000).as_bytes()).is_none());
        let wide = |n: usize| format!("[{}]", vec!["0"; n].join(","));
        assert!(json(wide(NODES_MAX - 1).as_bytes()).is_some());
        assert!(json(wide(NODES_MAX).as_bytes()).is_none());
        let long = format!("\"{}\"", "x".repeat(BYTES_MAX - 1));
        assert!(json(long.as_bytes()).is_none());
    }

    /// A JSON value that can be written in many ways.
    #[derive(Clone, Debug, PartialEq)]
    enum Model {
        Plain(String),
        Text(String),
        Array(Vec<Model>),
        Object(std::collections::BTreeMap<String, Model>),
    }

    fn model() -> impl Strategy<Value = Model> {
        let leaf = prop_oneof![
            any::<i64>().prop_map(|n| Model::Plain(n.to_string())),
            prop_oneof![Just("true"), Just("null"), Just("-1.5e3")]
                .prop_map(|w| Model::Plain(w.to_owned())),
            ".{0,6}".prop_map(Model::Text),
        ];
        leaf.prop_recursive(4, 24, 5, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..5).prop_map(Model::Array),
                proptest::collection::btree_map(".{0,4}", inner, 0..5).prop_map(Model::Object),
            ]
        })
    }

    /// Writes a value in one of its many forms, chosen by `style`.
    fn write(model: &Model, style: &mut u64, out: &mut String) {
        let mut pick = |n: u64| {
            *style = style
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (*style >> 33) % n
        };
        let space = [" ", "", "\n\t", "  "][pick(4) as usize];
        let reversed = pick(2) == 0;
        out.push_str(space);
        match model {
            Model::Plain(text) => out.push_str(text),
            Model::Text(text) => quote(text, pick(2) == 0, out),
            Model::Array(items) => {
                out.push('[');
                for (n, item) in items.iter().enumerate() {
                    if n > 0 {
                        out.push(',');
                    }
                    write(item, style, out);
                }
                out.push(']');
            }
            Model::Object(members) => {
                let mut members: Vec<_> = members.iter().collect();
                if reversed {
                    members.reverse();
                }
                out.push('{');
                for (n, (name, value)) in members.into_iter().enumerate() {
                    if n > 0 {
                        out.push(',');
                    }
                    out.push_str(space);
                    quote(name, reversed, out);
                    out.push_str(space);
                    out.push(':');
                    write(value, style, out);
                }
                out.push('}');
            }
        }
        out.push_str(space);
    }

    fn quote(text: &str, escaped: bool, out: &mut String) {
        out.push('"');
        for c in text.chars() {
            if escaped || c < ' ' || c == '"' || c == '\\' {
                let mut units = [0; 2];
                c.encode_utf16(&mut units)
                    .iter()
                    .for_each(|u| *out += &format!("\\u{u:04X}"));
            } else {
                out.push(c);
            }
        }
        out.push('"');
    }

    fn form(model: &Model, mut style: u64) -> String {
        let mut out = String::new();
        write(model, &mut style, &mut out);
        out
    }

    proptest! {
        #[test]
        fn all_forms_of_one_value_are_one_and_two_values_are_two(
            a in model(), b in model(), (s, t) in any::<(u64, u64)>(),
        ) {
            let (one, other) = (json(form(&a, s).as_bytes()), json(form(&a, t).as_bytes()));
            prop_assert!(one.is_some());
            prop_assert_eq!(&one, &other);
            prop_assert_eq!(one == json(form(&b, t).as_bytes()), a == b);
        }

        #[test]
        fn the_canonical_form_is_its_own(a in model(), s in any::<u64>()) {
            let once = json(form(&a, s).as_bytes()).unwrap();
            prop_assert_eq!(json(&once), Some(once));
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = json(&bytes);
        }
    }
}
