//! The export: one line of JSON a record, the same bytes in base64.
//!
//! ```text
//! file = *( line LF )
//! line = {"leaf":"BASE64","body":"BASE64"}      body: the content as stored
//!      / {"leaf":"BASE64"}                      the content was pruned
//! ```
//!
//! That is the whole grammar, without white space and in this order, which is
//! also what `jq -c .` writes. Another member is refused rather than skipped:
//! whatever stood in it would be unauthenticated, and a file that verifies must
//! not say anything that verifying doesn't cover. A readable view is made from
//! the verified bytes, never carried beside them.
//!
//! The reader holds one line at a time and no line beyond [`LINE_BYTES_MAX`].

use std::io::{self, BufRead, Read, Write};

use crate::base64;
use crate::leaf::{CLEAR_BYTES_MAX, CONTENT_BYTES_MAX, FIXED_BYTES};
use crate::verify::{Record, Unreadable};

const LEAF: &str = "{\"leaf\":\"";
const BODY: &str = "\",\"body\":\"";
const END: &str = "\"}";

/// Longest line, its end included.
pub const LINE_BYTES_MAX: usize = LEAF.len()
    + base64::encoded_len(FIXED_BYTES + CLEAR_BYTES_MAX)
    + BODY.len()
    + base64::encoded_len(CONTENT_BYTES_MAX)
    + END.len()
    + 2;

/// Writes one record as a line.
///
/// # Errors
/// Those of the writer.
pub fn write(out: &mut impl Write, leaf: &[u8], content: Option<&[u8]>) -> io::Result<()> {
    let mut line = String::from(LEAF);
    base64::encode_into(leaf, &mut line);
    if let Some(content) = content {
        line.push_str(BODY);
        base64::encode_into(content, &mut line);
    }
    line.push_str(END);
    line.push('\n');
    out.write_all(line.as_bytes())
}

/// The records of an exported file, for [`crate::verify::verify`].
///
/// Ends after the first failure of the reader itself, which
/// [`Records::io_error`] then tells: a disk that can't be read is no tampering.
#[derive(Debug)]
pub struct Records<R> {
    input: R,
    line: Vec<u8>,
    ended: bool,
    io_error: Option<io::Error>,
}

impl<R: BufRead> Records<R> {
    /// Reads from `input`.
    pub fn new(input: R) -> Records<R> {
        Records {
            input,
            line: Vec::new(),
            ended: false,
            io_error: None,
        }
    }

    /// What went wrong with the input itself, if anything did. A verdict about
    /// an input that couldn't be read to its end is worth nothing.
    pub fn io_error(&self) -> Option<&io::Error> {
        self.io_error.as_ref()
    }
}

impl<R: BufRead> Iterator for Records<R> {
    type Item = Result<Record, Unreadable>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        self.line.clear();
        let mut bounded = (&mut self.input).take(LINE_BYTES_MAX as u64);
        match bounded.read_until(b'\n', &mut self.line) {
            Ok(0) => {
                self.ended = true;
                None
            }
            Ok(_) => Some(self.parse_line()),
            Err(error) => {
                self.ended = true;
                self.io_error = Some(error);
                None
            }
        }
    }
}

impl<R> Records<R> {
    fn parse_line(&mut self) -> Result<Record, Unreadable> {
        let whole = self.line.last() == Some(&b'\n');
        if whole {
            self.line.pop();
        } else {
            self.ended = true;
        }
        match parse(&self.line) {
            Some(record) => Ok(record),
            None if whole => Err(Unreadable::Malformed(
                "the line is not {\"leaf\":…,\"body\":…} in base64".to_owned(),
            )),
            None if self.line.len() >= LINE_BYTES_MAX => Err(Unreadable::Malformed(format!(
                "a line beyond {LINE_BYTES_MAX} bytes"
            ))),
            None => Err(Unreadable::Torn("the last line is not whole".to_owned())),
        }
    }
}

fn parse(line: &[u8]) -> Option<Record> {
    let inner = line
        .strip_prefix(LEAF.as_bytes())?
        .strip_suffix(END.as_bytes())?;
    let quote = inner
        .iter()
        .position(|byte| *byte == b'"')
        .unwrap_or(inner.len());
    let (leaf, rest) = inner.split_at(quote);
    let content = match rest {
        [] => None,
        rest => Some(base64::decode(rest.strip_prefix(BODY.as_bytes())?).ok()?),
    };
    Some(Record {
        leaf: base64::decode(leaf).ok()?,
        content,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8]) -> Vec<Result<Record, Unreadable>> {
        Records::new(text).collect()
    }

    fn written(leaf: &[u8], content: Option<&[u8]>) -> Vec<u8> {
        let mut out = Vec::new();
        write(&mut out, leaf, content).unwrap();
        out
    }

    #[test]
    fn a_record_reads_back_with_and_without_its_content() {
        for content in [None, Some(&b""[..]), Some(b"content")] {
            let text = written(b"leaf", content);
            let record = Record {
                leaf: b"leaf".to_vec(),
                content: content.map(<[u8]>::to_vec),
            };
            assert_eq!(read(&text), [Ok(record)]);
        }
    }

    #[test]
    fn nothing_unauthenticated_travels_along() {
        let refused = [
            r#"{"leaf":"","body":"","note":"all fine"}"#,
            r#"{"leaf":"","note":""}"#,
            r#"{"note":"","leaf":""}"#,
            r#" {"leaf":""}"#,
            r#"{"leaf": ""}"#,
            r#"{"leaf":"A"}"#,
            r#"{"leaf":"","body":null}"#,
            "",
        ];
        for line in refused {
            let text = format!("{line}\n");
            assert!(
                matches!(&read(text.as_bytes())[..], [Err(Unreadable::Malformed(_))]),
                "{line}"
            );
        }
    }

    #[test]
    fn a_last_line_without_its_end_is_torn_unless_it_is_whole() {
        let text = written(b"leaf", Some(b"content"));
        for cut in 1..text.len() - 1 {
            assert!(
                matches!(&read(&text[..cut])[..], [Err(Unreadable::Torn(_))]),
                "cut at {cut}"
            );
        }
        assert!(matches!(&read(&text[..text.len() - 1])[..], [Ok(_)]));
    }

    #[test]
    fn a_line_without_end_is_not_read_into_memory() {
        let mut records = Records::new(io::BufReader::new(io::repeat(b'A')));
        assert!(matches!(
            records.next(),
            Some(Err(Unreadable::Malformed(_)))
        ));
        assert!(records.line.len() <= LINE_BYTES_MAX);
        assert!(records.next().is_none());
    }

    #[test]
    fn the_longest_record_fits_into_the_longest_line() {
        let text = written(
            &vec![0; FIXED_BYTES + CLEAR_BYTES_MAX],
            Some(&vec![0; CONTENT_BYTES_MAX]),
        );
        assert!(text.len() < LINE_BYTES_MAX);
        assert!(matches!(&read(&text)[..], [Ok(_)]));
    }

    #[test]
    fn a_reader_that_fails_is_no_tampering() {
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("disk"))
            }
        }
        let mut records = Records::new(io::BufReader::new(Broken));
        assert!(records.next().is_none());
        assert!(records.io_error().is_some());
    }
}
