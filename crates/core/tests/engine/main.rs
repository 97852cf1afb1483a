//! What an engine does, in virtual time, told as sentences.

mod reads;
mod support;
