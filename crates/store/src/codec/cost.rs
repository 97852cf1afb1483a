//! A cost on the wire: an amount in each dimension, those of nought left out.
//!
//! Records from before there were other dimensions have `requests` alone, and a
//! call that uses nothing else still looks like them.

use rategov_core::cost::{Cost, Dimension};
use serde::{Deserialize, Serialize};

use super::CodecError;
use super::wire::Wire;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::codec) struct CostForm {
    #[serde(default, skip_serializing_if = "is_nought")]
    spend: u64,
    #[serde(default, skip_serializing_if = "is_nought")]
    points: u64,
    #[serde(default, skip_serializing_if = "is_nought")]
    tokens: u64,
    requests: u64,
    #[serde(default, skip_serializing_if = "is_nought")]
    input_tokens: u64,
    #[serde(default, skip_serializing_if = "is_nought")]
    output_tokens: u64,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands a reference to what it asks"
)]
fn is_nought(amount: &u64) -> bool {
    *amount == 0
}

impl Wire for Cost {
    type Form = CostForm;

    fn to_form(&self) -> CostForm {
        CostForm {
            spend: self.of(Dimension::Spend),
            points: self.of(Dimension::Points),
            tokens: self.of(Dimension::Tokens),
            requests: self.of(Dimension::Requests),
            input_tokens: self.of(Dimension::InputTokens),
            output_tokens: self.of(Dimension::OutputTokens),
        }
    }

    fn from_form(form: CostForm) -> Result<Cost, CodecError> {
        Ok(Cost::ONE
            .with(Dimension::Requests, form.requests)
            .with(Dimension::Tokens, form.tokens)
            .with(Dimension::InputTokens, form.input_tokens)
            .with(Dimension::OutputTokens, form.output_tokens)
            .with(Dimension::Points, form.points)
            .with(Dimension::Spend, form.spend))
    }
}
