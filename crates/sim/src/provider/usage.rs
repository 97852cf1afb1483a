//! What a model call really takes: tokens in, tokens out.
//!
//! Input follows from the request's length, four bytes a token. Output is drawn
//! from a heavy-tailed distribution that doesn't know what the request allows at
//! most: real answers don't, either, but a real one ends there, and so does this.
//!
//! The distribution is log-normal up to the twelfth-uniform approximation of the
//! normal one (the sum of twelve uniform numbers, less six), in whole numbers:
//!
//! ```text
//! output = median · 2^(spread · z),   z of mean 0 and deviation 1, −6 < z < 6
//! ```
//!
//! A coefficient of variation `c` is a spread of `√ln(1 + c²) / ln 2` doublings.
//! Example: median 400, c = 3: spread 2.19. One call in six takes more than
//! 400·2^2.19 = 1,825, one in forty more than 8,300; the mean is 1,265.

use std::str::FromStr;

use serde_json::Value;

use super::draw::{Purpose, Seed};
use super::message::Request;
use super::quota::{Load, parse_number};
use super::shapes::Api;

/// Bytes of a request that make one token.
const BYTES_A_TOKEN: u64 = 4;
/// Most output where the request names no most.
const MOST_DEFAULT: u64 = 4_096;
/// Largest output of one choice that is ever drawn.
const OUTPUT_MAX: u64 = 10_000_000;
/// Largest coefficient of variation, in thousandths.
const VARIATION_MAX: u64 = 10_000;

/// How long answers are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Length {
    /// As long as the short texts of this provider: 8 to 16 tokens.
    #[default]
    Short,
    /// Heavy-tailed.
    Varied {
        /// Half of the answers are shorter, in tokens.
        median: u64,
        /// The deviation of the logarithm, in thousandths of a doubling.
        spread: u64,
    },
}

impl Length {
    /// Of a median and a coefficient of variation in thousandths.
    pub fn varied(median: u64, variation_permille: u64) -> Length {
        let c = variation_permille.min(VARIATION_MAX) as f64 / 1_000.0;
        let doublings = (1.0 + c * c).ln().sqrt() / std::f64::consts::LN_2;
        Length::Varied {
            median: median.clamp(1, OUTPUT_MAX),
            spread: (doublings * 1_000.0).round() as u64,
        }
    }

    /// The tokens of the `index`-th answer; `short` is how long a short text is.
    pub fn draw(self, seed: Seed, index: u64, short: u64) -> u64 {
        match self {
            Length::Short => short,
            Length::Varied { median, spread } => {
                let z = normal(seed, index);
                let doublings = z * i64::try_from(spread).unwrap_or(i64::MAX) / 1_000;
                times_two_to(median, doublings).clamp(1, OUTPUT_MAX)
            }
        }
    }
}

/// Why a text is no length.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no length of answers\nhint: write short, or MEDIAN~VARIATION in tokens and percent: \
     400~300"
)]
pub struct LengthError(pub String);

impl FromStr for Length {
    type Err = LengthError;

    /// `short`, or `400~300`: a median of 400 tokens, a deviation of 300 % of the mean.
    fn from_str(text: &str) -> Result<Length, LengthError> {
        if text == "short" {
            return Ok(Length::Short);
        }
        let (median, variation) = text.split_once('~').unwrap_or((text, "0"));
        let numbers = parse_number(median).zip(variation.parse::<u64>().ok());
        match numbers {
            Some((median, percent)) if percent * 10 <= VARIATION_MAX => {
                Ok(Length::varied(median, percent * 10))
            }
            _ => Err(LengthError(text.to_owned())),
        }
    }
}

/// What a model call takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the request.
    pub input: u64,
    /// Those of them that were in the provider's cache.
    pub cached: u64,
    /// Tokens of the answer, all its choices together.
    pub output: u64,
    /// Whether the request's own bound ended the answer.
    pub is_capped: bool,
}

/// What a model call asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Tokens of the request.
    pub input: u64,
    /// Most tokens of one choice, if it says so.
    pub most: Option<u64>,
    /// Answers that it wants.
    pub choices: u64,
}

impl Wanted {
    /// What a request asks for.
    pub fn of(request: &Request) -> Wanted {
        let json = request.json();
        let most = most_of(json).filter(|most| 0 < *most);
        Wanted {
            input: (request.body().len() as u64 / BYTES_A_TOKEN).max(1),
            most,
            choices: json["n"].as_u64().unwrap_or(1).clamp(1, 128),
        }
    }

    /// As a limit sees it when it arrives. `cached` is the cached share of input in thousandths.
    pub fn load(self, cached_permille: u64) -> Load {
        Load {
            input: self.input,
            cached: self.cached(cached_permille),
            most: self
                .most
                .unwrap_or(MOST_DEFAULT)
                .saturating_mul(self.choices),
            is_read: false,
            is_generation: true,
        }
    }

    /// Input tokens that are cached.
    pub fn cached(self, cached_permille: u64) -> u64 {
        self.input * cached_permille.min(1_000) / 1_000
    }
}

/// The most output by the names of OpenAI, Anthropic and Gemini.
fn most_of(json: &Value) -> Option<u64> {
    let names = ["max_tokens", "max_completion_tokens", "max_output_tokens"];
    let named = names.iter().find_map(|name| json[*name].as_u64());
    named.or_else(|| json["generationConfig"]["maxOutputTokens"].as_u64())
}

/// What a call of this kind to a model counts as; others take no tokens.
pub fn load_of(api: Option<Api>, request: &Request, cached_permille: u64) -> Load {
    match api.filter(|api| api.is_generation()) {
        // Nothing is produced, so that nothing of it can be charged.
        Some(Api::Embeddings) => Load {
            most: 0,
            ..Wanted::of(request).load(cached_permille)
        },
        Some(_) => Wanted::of(request).load(cached_permille),
        None => Load {
            is_read: request.head.is_read(),
            ..Load::default()
        },
    }
}

/// A number of mean 0 and deviation 1, in 1/65,536.
fn normal(seed: Seed, index: u64) -> i64 {
    // Neighbours share no number.
    let first = index.wrapping_mul(12);
    let uniform = |n: u64| (seed.number(Purpose::Length, first.wrapping_add(n)) >> 48) as i64;
    (0..12).map(uniform).sum::<i64>() - 6 * 65_536
}

/// `n · 2^(x / 65,536)`: the whole doublings by shifting, the rest from a table
/// of sixteenths and a straight line between them (off by less than 0.03 %).
fn times_two_to(n: u64, x: i64) -> u64 {
    /// 2^(k/16) in 1/65,536.
    const SIXTEENTHS: [u64; 17] = [
        65_536, 68_438, 71_468, 74_632, 77_936, 81_386, 84_990, 88_752, 92_682, 96_785, 101_070,
        105_545, 110_218, 115_098, 120_194, 125_515, 131_072,
    ];
    let (whole, part) = (x.div_euclid(65_536), x.rem_euclid(65_536) as u64);
    let (k, rest) = ((part / 4_096) as usize, part % 4_096);
    let (low, high) = (SIXTEENTHS[k], SIXTEENTHS[k + 1]);
    let factor = u128::from(low + (high - low) * rest / 4_096);
    let product = u128::from(n) * factor;
    let shifted = match u32::try_from(whole.unsigned_abs()).unwrap_or(u32::MAX) {
        shift if whole < 0 => product >> shift.min(100),
        shift => product << shift.min(40),
    };
    u64::try_from(shifted >> 16).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_have_the_median_and_the_variation_that_they_should() {
        for percent in [0_u64, 100, 300] {
            let length: Length = format!("400~{percent}").parse().expect("a length");
            let mut drawn: Vec<u64> = (0..40_000_u64)
                .map(|n| length.draw(Seed(7), n, 0))
                .collect();
            drawn.sort_unstable();
            let median = drawn[drawn.len() / 2];
            assert!((385..=415).contains(&median), "{percent} %: {median}");
            let n = drawn.len() as f64;
            let mean = drawn.iter().sum::<u64>() as f64 / n;
            let square = |x: &u64| (*x as f64 - mean).powi(2);
            let variation = (drawn.iter().map(square).sum::<f64>() / n).sqrt() / mean;
            let wanted = percent as f64 / 100.0;
            // A heavy tail's variation is itself uncertain, and twelve uniform
            // numbers have no tail beyond six.
            assert!(
                (wanted * 0.8 - 0.01..=wanted * 1.2 + 0.01).contains(&variation),
                "{percent} %: {variation}"
            );
        }
    }

    #[test]
    fn an_answer_repeats_with_its_seed_and_index() {
        let length = Length::varied(400, 3_000);
        let draw = |seed, index| length.draw(Seed(seed), index, 0);
        assert_eq!(draw(1, 5), draw(1, 5));
        assert_ne!(draw(1, 5), draw(2, 5));
    }

    #[test]
    fn powers_of_two_are_close_and_bounded() {
        for (n, x, expected) in [
            (400, 0, 400),
            (400, 65_536, 800),
            (400, -65_536, 200),
            (1_000, 32_768, 1_414),
            (1, 60 * 65_536, 1 << 40),
        ] {
            assert_eq!(times_two_to(n, x), expected, "{n} · 2^({x}/65536)");
        }
    }

    #[test]
    fn what_is_no_length_is_refused_with_a_hint() {
        for text in ["", "long", "0~100", "400~many", "400~2000"] {
            let error = text.parse::<Length>().expect_err(text).to_string();
            assert!(error.contains("hint: write short"), "{error}");
        }
    }

    #[test]
    fn the_most_is_read_by_every_vendor_s_name() {
        let check = |body: &str, most, choices| {
            let wanted = Wanted::of(&Request::of("POST", "/", &[], body));
            assert_eq!((wanted.most, wanted.choices), (most, choices), "{body}");
        };
        check(r#"{"max_tokens": 7}"#, Some(7), 1);
        check(r#"{"max_completion_tokens": 8, "n": 3}"#, Some(8), 3);
        check(r#"{"max_output_tokens": 9}"#, Some(9), 1);
        check(
            r#"{"generationConfig": {"maxOutputTokens": 10}}"#,
            Some(10),
            1,
        );
        check("no JSON", None, 1);
    }
}
