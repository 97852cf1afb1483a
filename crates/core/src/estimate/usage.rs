//! What a request says about its cost, and what its answer says about it.

/// What a request says before it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizing {
    /// Calls it counts as, at least 1.
    pub requests: u64,
    /// Bytes of the prompt; a picture counts as [`MEDIA_BYTES`].
    pub prompt_bytes: u64,
    /// Tokens of the prompt, where somebody counted them.
    pub input_counted: Option<u64>,
    /// The most output it allows for each choice.
    pub most_output: Option<u64>,
    /// Answers it asks for, at least 1.
    pub choices: u64,
    /// Tokens that its endpoint is declared to cost.
    pub tokens: Option<u64>,
    /// Points that its endpoint is declared to cost.
    pub points: Option<u64>,
    /// Money that its endpoint is declared to cost, in millionths.
    pub spend: Option<u64>,
}

/// What a picture or a recording in a prompt counts as until its kind is learnt:
/// at four bytes a token about 1,000 tokens, which is usual for a picture.
pub const MEDIA_BYTES: u64 = 4_096;

impl Default for Sizing {
    /// One call of which nothing is known.
    fn default() -> Sizing {
        Sizing {
            requests: 1,
            prompt_bytes: 0,
            input_counted: None,
            most_output: None,
            choices: 1,
            tokens: None,
            points: None,
            spend: None,
        }
    }
}

/// How much of an answer was seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Seen {
    /// To its end: what it reports is final.
    Whole,
    /// It goes on, or broke off: there may be more than it reported.
    #[default]
    Part,
}

/// What an answer says about its cost. Amounts are what was reported, as far as it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens in, those from a cache included.
    pub input: Option<u64>,
    /// Of these, tokens from the provider's cache.
    pub cached_input: Option<u64>,
    /// Tokens out, those that were only thought included.
    pub output: Option<u64>,
    /// Tokens in and out.
    pub total: Option<u64>,
    /// The provider's own units.
    pub points: Option<u64>,
    /// Money, in millionths of the account's currency.
    pub spend: Option<u64>,
    /// Bytes of generated text that passed; of an answer that can't be read, of its body.
    pub output_bytes: u64,
    /// How much of the answer was seen.
    pub seen: Seen,
}

impl Usage {
    /// Whether it reports any amount.
    pub fn is_reported(&self) -> bool {
        let amounts = [self.input, self.output, self.total, self.points, self.spend];
        amounts.iter().any(Option::is_some)
    }

    /// Tokens in, told or following from what was told.
    pub(super) fn told_input(&self) -> Option<u64> {
        self.input
            .or_else(|| Some(self.total?.saturating_sub(self.output?)))
    }

    /// Tokens out, told or following from what was told: a whole answer that reports
    /// its input alone and shows no text has no output, as embeddings do.
    pub(super) fn told_output(&self) -> Option<u64> {
        let by_total = || Some(self.total?.saturating_sub(self.input?));
        let has_none = self.seen == Seen::Whole && self.input.is_some() && self.output_bytes == 0;
        self.output
            .or_else(by_total)
            .or_else(|| has_none.then_some(0))
    }
}
