//! Waiting for what must happen, by looking again and again: another process
//! can't be asked to tell. What does not happen in time fails the test.

use std::time::Duration;

use tokio::time::Instant;

/// Longer than anything takes, also on a machine with much else to do.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(15);

/// A wait: `loop { look; if !wait.pause().await { too late } }`.
pub(crate) struct Wait {
    last: Instant,
}

impl Wait {
    /// Begins to wait.
    pub(crate) fn begin() -> Wait {
        Wait {
            last: Instant::now() + PATIENCE,
        }
    }

    /// Waits for the next look; `false` if it has taken too long.
    pub(crate) async fn pause(&self) -> bool {
        tokio::time::sleep(PAUSE).await;
        Instant::now() < self.last
    }
}
