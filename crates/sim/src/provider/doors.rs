//! What happens to connections before any request is read: a provider that is
//! not listening, that resets at once, or that drops idle connections.

use rategov_core::time::{Moment, Span};
use serde::Deserialize;

/// What becomes of a new connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Welcome {
    /// Requests are read from it.
    Serve,
    /// It is reset before a byte is read.
    Reset,
    /// It is closed before a byte is read (in the middle of a TLS handshake).
    Close,
}

/// The scripted state of the provider's doors.
#[derive(Clone, Debug, Default)]
pub struct Doors {
    closed_until: Option<Moment>,
    resets: u32,
    closes: u32,
    idle: Option<Span>,
}

/// A change of the doors, as written.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
pub struct WrittenDoors {
    /// Milliseconds from now during which connections are refused.
    pub refuse_ms: Option<u64>,
    /// Next connections that are reset as they are accepted.
    pub reset_at_accept: Option<u32>,
    /// Next connections that are closed as they are accepted.
    pub close_at_accept: Option<u32>,
    /// Milliseconds after which an idle connection is closed without a word; 0 for never.
    pub close_idle_ms: Option<u64>,
}

impl Doors {
    /// Applies a change; what it doesn't name stays.
    pub fn change(&mut self, now: Moment, written: WrittenDoors) {
        if let Some(ms) = written.refuse_ms {
            self.closed_until = Some(now + Span::from_millis(ms));
        }
        self.resets = written.reset_at_accept.unwrap_or(self.resets);
        self.closes = written.close_at_accept.unwrap_or(self.closes);
        if let Some(ms) = written.close_idle_ms {
            self.idle = (ms > 0).then(|| Span::from_millis(ms));
        }
    }

    /// Until when connections are refused, if they are at `now`.
    pub fn closed_until(&self, now: Moment) -> Option<Moment> {
        self.closed_until.filter(|until| now < *until)
    }

    /// A connection was accepted: what becomes of it.
    pub fn welcome(&mut self) -> Welcome {
        match (&mut self.resets, &mut self.closes) {
            (0, 0) => Welcome::Serve,
            (0, closes) => {
                *closes -= 1;
                Welcome::Close
            }
            (resets, _) => {
                *resets -= 1;
                Welcome::Reset
            }
        }
    }

    /// How long a connection may be idle; `None` for ever.
    pub fn idle(&self) -> Option<Span> {
        self.idle
    }

    /// Whether a scripted reset or close still waits for its connection.
    pub fn is_done(&self) -> bool {
        self.resets == 0 && self.closes == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripted_connections_are_spoiled_in_turn_and_then_served() {
        let mut doors = Doors::default();
        let written = WrittenDoors {
            refuse_ms: Some(10),
            reset_at_accept: Some(1),
            close_at_accept: Some(1),
            close_idle_ms: Some(200),
        };
        doors.change(Moment::START, written);
        assert_eq!(
            doors.closed_until(Moment::from_micros(9_999)),
            Some(Moment::from_micros(10_000))
        );
        assert_eq!(doors.closed_until(Moment::from_micros(10_000)), None);
        assert!(!doors.is_done());
        let seen = [doors.welcome(), doors.welcome(), doors.welcome()];
        assert_eq!(seen, [Welcome::Reset, Welcome::Close, Welcome::Serve]);
        assert!(doors.is_done());
        doors.change(
            Moment::START,
            WrittenDoors {
                close_idle_ms: Some(0),
                ..written_none()
            },
        );
        assert_eq!(doors.idle(), None);
    }

    fn written_none() -> WrittenDoors {
        WrittenDoors::default()
    }
}
