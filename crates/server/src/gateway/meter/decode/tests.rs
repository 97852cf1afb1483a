//! Codings, cuts, bounds: what comes out, and when nothing more does.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

use super::*;

const PLAIN: &[u8] = b"{\"error\":{\"type\":\"rate_limit_error\"}}";

fn plain() -> Vec<u8> {
    PLAIN.repeat(40)
}

/// The same forty texts, by another implementation of brotli.
const BROTLI: &str =
    "1bc705f88dd315f32384750f7463a92f976378568e452c9dbe646422cb52051a52a98f930e9ebd3148adb5c85d1d";

/// 256 MiB of spaces in brotli: so many bytes for one.
const BROTLI_BOMB_START: &str = "cfffff7f002440e2b14072effff9ffff0f8004401c1680eefd3fffffff01900088c302d0bdffe7ffff3f001200715800baf7fffcffff074002200e0b40f7fe9f";

fn from_hex(text: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(digit).collect()
}

fn coded(coding: &str, plain: &[u8]) -> Vec<u8> {
    let level = Compression::default();
    match coding {
        "gzip" => {
            let mut encoder = GzEncoder::new(Vec::new(), level);
            encoder.write_all(plain).unwrap();
            encoder.finish().unwrap()
        }
        "deflate" => {
            let mut encoder = ZlibEncoder::new(Vec::new(), level);
            encoder.write_all(plain).unwrap();
            encoder.finish().unwrap()
        }
        "bare" => {
            let mut encoder = DeflateEncoder::new(Vec::new(), level);
            encoder.write_all(plain).unwrap();
            encoder.finish().unwrap()
        }
        "zstd" => zstd::encode_all(plain, 3).unwrap(),
        _ => plain.to_vec(),
    }
}

fn headers(coding: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let coding = if coding == "bare" { "deflate" } else { coding };
    headers.insert(header::CONTENT_ENCODING, coding.parse().unwrap());
    headers
}

const LIMITS: Limits = Limits {
    plain_max: 64 << 20,
};

fn read(coding: &str, pieces: &[&[u8]]) -> (Vec<u8>, bool) {
    let coding = Coding::of(&headers(coding));
    let mut decoder = Decoder::new(coding, Vec::new(), LIMITS, &Room::default());
    pieces.iter().for_each(|piece| decoder.feed(piece));
    (decoder.sink().unwrap().clone(), decoder.is_read())
}

fn all_codings() -> Vec<(&'static str, Vec<u8>)> {
    let mut all: Vec<_> = ["identity", "gzip", "deflate", "bare", "zstd"]
        .map(|coding| (coding, coded(coding, &plain())))
        .to_vec();
    all.push(("br", from_hex(BROTLI)));
    all
}

#[test]
fn every_coding_is_read_however_it_is_cut_and_each_part_gives_a_beginning() {
    for (coding, bytes) in all_codings() {
        for cut in 0..=bytes.len() {
            let (first, second) = bytes.split_at(cut);
            assert_eq!(
                read(coding, &[first, second]),
                (plain(), true),
                "{coding} at {cut}"
            );
            let (part, is_read) = read(coding, &[first]);
            assert!(plain().starts_with(&part) && is_read, "{coding} at {cut}");
        }
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(read(coding, &single), (plain(), true), "{coding}");
        let whole = whole(&headers(coding), &bytes, 1 << 20).unwrap();
        assert_eq!(whole, plain(), "{coding}");
    }
}

#[test]
fn what_was_flushed_is_read_at_once() {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(b"data: 1\n\n").unwrap();
    encoder.flush().unwrap();
    assert_eq!(read("gzip", &[encoder.get_ref()]).0, b"data: 1\n\n");
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 3).unwrap();
    encoder.write_all(b"data: 1\n\n").unwrap();
    encoder.flush().unwrap();
    assert_eq!(read("zstd", &[encoder.get_ref()]).0, b"data: 1\n\n");
}

#[test]
fn what_is_none_of_its_coding_ends_the_copy_and_nothing_else() {
    for coding in ["gzip", "zstd", "br", "deflate"] {
        let (part, is_read) = read(coding, &[&[0xff; 100], PLAIN]);
        assert_eq!((part.len(), is_read), (0, false), "{coding}");
    }
    for coding in ["compress", "gzip, br", "aes128gcm"] {
        assert_eq!(Coding::of(&headers(coding)), Coding::Unknown, "{coding}");
        assert_eq!(whole(&headers(coding), PLAIN, 1 << 20), None);
        assert_eq!(read(coding, &[PLAIN]), (Vec::new(), false));
    }
    let mut twice = headers("gzip");
    twice.append(header::CONTENT_ENCODING, "gzip".parse().unwrap());
    assert_eq!(Coding::of(&twice), Coding::Unknown);
    assert_eq!(Coding::of(&HeaderMap::new()), Coding::Plain);
}

/// Counts, so that a bomb has somewhere to go.
#[derive(Default)]
struct Count(u64);

impl Sink for Count {
    fn take(&mut self, plain: &[u8]) {
        self.0 += plain.len() as u64;
    }
}

#[test]
fn a_bomb_of_a_gigabyte_is_left_alone_soon() {
    // Sixteen members, or frames, of 64 MiB each.
    let zeros = vec![0; 64 << 20];
    let gzip = coded("gzip", &zeros).repeat(16);
    let zstd = coded("zstd", &zeros).repeat(16);
    for (coding, bomb) in [
        ("gzip", gzip),
        ("zstd", zstd),
        ("br", from_hex(BROTLI_BOMB_START)),
    ] {
        let coding = Coding::of(&headers(coding));
        let mut decoder = Decoder::new(coding, Count::default(), LIMITS, &Room::default());
        decoder.feed(&bomb);
        let out = decoder.sink().unwrap().0;
        assert!(!decoder.is_read(), "{coding:?}");
        assert!(
            out <= PLAIN_FREE + STEP_BYTES as u64 * RATIO_MAX,
            "{coding:?} {out}"
        );
    }
}

#[test]
fn a_window_larger_than_http_allows_is_not_read() {
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
    encoder.window_log(27).unwrap();
    encoder.write_all(&plain()).unwrap();
    let bytes = encoder.finish().unwrap();
    assert!(!read("zstd", &[&bytes]).1);
}

#[test]
fn windows_take_room_and_give_it_back() {
    let room = Room::of(25 << 20);
    let open = || Decoder::new(Coding::Brotli, Vec::new(), LIMITS, &room);
    let first = open();
    let mut second = open();
    second.feed(&from_hex(BROTLI));
    assert!(first.is_read() && !second.is_read());
    drop(first);
    let mut third = open();
    third.feed(&from_hex(BROTLI));
    assert!(third.is_read());
}
