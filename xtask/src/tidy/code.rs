//! Rust source with comments and the inside of literals blanked out.
//!
//! A rule that looks for a word must not stumble over a sentence about it. This
//! is a lexer for exactly that question and no more: line and nested block
//! comments, strings with escapes, raw strings, byte and C strings, characters
//! against lifetimes. Every blanked character becomes a space and line ends stay,
//! so that a line of [`Code`] is the same line of the file.
//!
//! ```text
//! let a = "thread::sleep"; // thread::sleep      the file
//! let a = "             ";                       what is left
//! ```

/// The code of a file, line by line, without comments and literals.
#[derive(Clone, Debug)]
pub struct Code {
    text: String,
    tests_from: usize,
}

impl Code {
    /// Blanks comments and literals of a file.
    pub fn of(source: &str) -> Code {
        let text = blank(source);
        let tests_from = tests_from(&text);
        Code { text, tests_from }
    }

    /// The lines, each with its number from 1.
    pub fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text
            .lines()
            .enumerate()
            .map(|(index, line)| (index + 1, line))
    }

    /// Whether a line lies in the file's module of tests, which stands last by custom.
    pub fn is_test_line(&self, line: usize) -> bool {
        line >= self.tests_from
    }
}

/// Whether `word` stands in `line` and is no part of a longer name.
pub fn has_word(line: &str, word: &str) -> bool {
    let is_name = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    line.match_indices(word).any(|(at, _)| {
        let joined_before = is_name(word.chars().next()) && is_name(line[..at].chars().next_back());
        let joined_after =
            is_name(word.chars().next_back()) && is_name(line[at + word.len()..].chars().next());
        !joined_before && !joined_after
    })
}

fn tests_from(text: &str) -> usize {
    let mut lines = text.lines().enumerate().peekable();
    while let Some((index, line)) = lines.next() {
        let opens_module =
            |next: &str| next.trim_start().starts_with("mod ") && next.ends_with('{');
        if line.trim() == "#[cfg(test)]" && lines.peek().is_some_and(|(_, next)| opens_module(next))
        {
            return index + 1;
        }
    }
    usize::MAX
}

fn blank(source: &str) -> String {
    let characters: Vec<char> = source.chars().collect();
    let mut out = String::with_capacity(source.len());
    let mut at = 0;
    while at < characters.len() {
        let rest = &characters[at..];
        let (kept, length) = match rest {
            ['/', '/', ..] => (0, line_comment(rest)),
            ['/', '*', ..] => (0, block_comment(rest)),
            ['"', ..] => (1, string(rest)),
            ['r', '"' | '#', ..] if !follows_word(&characters, at) => {
                match raw_string(&rest[1..]) {
                    Some(length) => (1, 1 + length),
                    None => (1, 1),
                }
            }
            ['\'', ..] => (1, character(rest)),
            _ => (1, 1),
        };
        for (index, &c) in rest[..length].iter().enumerate() {
            let quote = index + 1 == length && matches!(c, '"' | '\'' | '#');
            out.push(if index < kept || c == '\n' || quote {
                c
            } else {
                ' '
            });
        }
        at += length;
    }
    out
}

/// Whether the character before belongs to a name, as in `for"…"` never, but `bar"` would. The
/// prefixes of byte and C strings are part of the literal.
fn follows_word(characters: &[char], at: usize) -> bool {
    let before = |back: usize| at.checked_sub(back).and_then(|index| characters.get(index));
    let is_name = |c: Option<&char>| c.is_some_and(|c| c.is_alphanumeric() || *c == '_');
    match before(1) {
        Some('b' | 'c') => is_name(before(2)),
        other => is_name(other),
    }
}

fn line_comment(rest: &[char]) -> usize {
    rest.iter().position(|&c| c == '\n').unwrap_or(rest.len())
}

fn block_comment(rest: &[char]) -> usize {
    let (mut at, mut depth) = (0, 0_usize);
    while at < rest.len() {
        match rest[at..] {
            ['/', '*', ..] => (at, depth) = (at + 2, depth + 1),
            ['*', '/', ..] => {
                (at, depth) = (at + 2, depth - 1);
                if depth == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    rest.len()
}

fn string(rest: &[char]) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// The length of `#…"…"#…`, or nothing if this is a raw identifier such as `r#type`.
fn raw_string(rest: &[char]) -> Option<usize> {
    let hashes = rest.iter().take_while(|&&c| c == '#').count();
    if rest.get(hashes) != Some(&'"') {
        return None;
    }
    let mut at = hashes + 1;
    while at < rest.len() {
        let closes = rest[at] == '"'
            && rest[at + 1..]
                .iter()
                .take(hashes)
                .filter(|&&c| c == '#')
                .count()
                == hashes;
        if closes {
            return Some(at + 1 + hashes);
        }
        at += 1;
    }
    Some(rest.len())
}

/// The length of a character literal, or 1 for the quote of a lifetime.
fn character(rest: &[char]) -> usize {
    match rest {
        ['\'', '\\', ..] => {
            let close = rest.iter().skip(3).position(|&c| c == '\'');
            close.map_or(1, |index| index + 4)
        }
        ['\'', _, '\'', ..] => 3,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(source: &str, expected: &str) {
        let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let blanked = blank(source);
        assert_eq!(squeezed(&blanked), squeezed(expected), "{blanked:?}");
        assert_eq!(blanked.lines().count(), source.lines().count());
        assert_eq!(blanked.chars().count(), source.chars().count());
    }

    #[test]
    fn comments_are_blanked_whatever_they_hold() {
        check("a // b\nc", "a\nc");
        check("a /* b /* c */ d */ e", "a e");
        check("a /* \"b */ c", "a c");
        check("/// it's one\nfn a() {}", "fn a() {}");
    }

    #[test]
    fn the_inside_of_literals_is_blanked_and_code_after_them_stays() {
        check(r#"f("a // b") + c"#, r#"f(" ") + c"#);
        check(r#"f("a \" b") + c"#, r#"f(" ") + c"#);
        check(r##"f(r#"a " b"#) + c"##, r##"f(r #) + c"##);
        check(r##"f(br"a") + c"##, r#"f(br ") + c"#);
        check("f(b'\\'', '\"') + c", "f(b' ', ' ') + c");
        check("f('\\u{1F600}') + c", "f(' ') + c");
    }

    #[test]
    fn lifetimes_and_raw_names_are_code() {
        check(
            "fn a<'x>(b: &'x str) -> &'x str",
            "fn a<'x>(b: &'x str) -> &'x str",
        );
        check("r#type + bar", "r#type + bar");
    }

    #[test]
    fn an_open_end_blanks_to_the_end_of_the_file_and_never_panics() {
        for source in ["\"a", "r#\"a", "/* a", "'", "'\\", "r#", "\"\\"] {
            let _ = blank(source);
        }
    }

    #[test]
    fn the_module_of_tests_begins_at_its_attribute() {
        let code = Code::of("fn a() {}\n\n#[cfg(test)]\nmod tests {\n}\n");
        assert!(!code.is_test_line(1));
        assert!(code.is_test_line(3) && code.is_test_line(4));
        assert!(!Code::of("#[cfg(test)]\nmod tests;\n").is_test_line(2));
    }
}
