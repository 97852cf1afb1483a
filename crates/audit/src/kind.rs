//! What a leaf is for: the one byte of it that tells records apart.
//!
//! The codes are part of the format and never change. Only the kinds that this
//! version writes have a clear body yet (see [`crate::clear`]); the others are
//! named so that a verifier walks past them instead of calling them unknown.

/// What a leaf is for. Coarse on purpose: whether a record tells of a call, a
/// refusal or a person's decision is inside its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Kind {
    /// An ordinary record: everything it says is its content.
    Sealed = 1,
    /// The first leaf; names the origin.
    Genesis = 2,
    /// A new key begins.
    SegmentOpen = 3,
    /// The signing key changes.
    KeyRotate = 4,
    /// A unit of retention begins.
    EpochOpen = 5,
    /// A unit of retention ends.
    EpochClose = 6,
    /// The keys of a unit of retention were destroyed.
    EpochShred = 7,
    /// The writer came back and repaired its own torn end.
    Recovery = 8,
    /// Time during which nothing was recorded.
    Gap = 9,
    /// Recording itself was reconfigured.
    Config = 10,
    /// Nothing happened, and that is worth knowing.
    Heartbeat = 11,
    /// The wall clock went back; this leaf and those after it carry the later time.
    ClockAnomaly = 12,
}

impl Kind {
    /// Every kind, in the order of their codes.
    pub const ALL: [Kind; 12] = [
        Kind::Sealed,
        Kind::Genesis,
        Kind::SegmentOpen,
        Kind::KeyRotate,
        Kind::EpochOpen,
        Kind::EpochClose,
        Kind::EpochShred,
        Kind::Recovery,
        Kind::Gap,
        Kind::Config,
        Kind::Heartbeat,
        Kind::ClockAnomaly,
    ];

    /// The kind of a code; `None` for a code that this version doesn't know.
    pub fn from_code(code: u8) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| *kind as u8 == code)
    }

    /// The word that people see.
    pub const fn word(self) -> &'static str {
        match self {
            Kind::Sealed => "sealed",
            Kind::Genesis => "genesis",
            Kind::SegmentOpen => "segment_open",
            Kind::KeyRotate => "key_rotate",
            Kind::EpochOpen => "epoch_open",
            Kind::EpochClose => "epoch_close",
            Kind::EpochShred => "epoch_shred",
            Kind::Recovery => "recovery",
            Kind::Gap => "gap",
            Kind::Config => "config",
            Kind::Heartbeat => "heartbeat",
            Kind::ClockAnomaly => "clock_anomaly",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_own_code_and_word() {
        for (code, kind) in (1..).zip(Kind::ALL) {
            assert_eq!(Kind::from_code(code), Some(kind));
            assert_eq!(
                Kind::ALL
                    .iter()
                    .filter(|other| other.word() == kind.word())
                    .count(),
                1
            );
        }
    }
}
