//! What a process and its children used, as Linux tells it.

use std::fs;
use std::time::Duration;

use anyhow::Context;

/// Clock ticks in a second: Linux has counted in hundredths on every usual
/// machine for decades (`getconf CLK_TCK`).
const TICKS_PER_SECOND: u64 = 100;

/// What was used up to now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Processor time, user and kernel, all threads.
    pub processor: Duration,
    /// Resident memory in bytes.
    pub resident: u64,
}

/// Of a process and its direct children (a server's workers).
///
/// # Errors
/// If the process is gone.
pub fn usage(pid: u32) -> anyhow::Result<Usage> {
    let mut sum = of_one(pid).with_context(|| format!("process {pid} is gone"))?;
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    for child in children.unwrap_or_default().split_ascii_whitespace() {
        // A worker may end between two looks.
        if let Some(used) = child.parse().ok().and_then(|child| of_one(child).ok()) {
            sum.processor += used.processor;
            sum.resident += used.resident;
        }
    }
    Ok(sum)
}

fn of_one(pid: u32) -> anyhow::Result<Usage> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    parse(&stat, &status).context("the process's files have another form than expected")
}

fn parse(stat: &str, status: &str) -> Option<Usage> {
    // The second field is the program's name in parentheses and may hold anything.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let kernel: u64 = fields.next()?.parse().ok()?;
    let resident = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = resident.trim().trim_end_matches(" kB").parse().ok()?;
    Some(Usage {
        processor: Duration::from_millis((user + kernel) * 1_000 / TICKS_PER_SECOND),
        resident: kilobytes * 1_024,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_and_kernel_time_are_added_whatever_the_program_is_called() {
        let stat = "17 (a) b (c) S 1 17 17 0 -1 4194560 500 0 0 0 250 130 9 9 20 0 4 0 77 1 1";
        let status = "Name:\tx\nVmHWM:\t    9000 kB\nVmRSS:\t    8192 kB\nThreads:\t4\n";
        let expected = Usage {
            processor: Duration::from_millis(3_800),
            resident: 8 << 20,
        };
        assert_eq!(parse(stat, status), Some(expected));
        assert_eq!(parse("17 nothing", status), None);
        assert_eq!(parse(stat, "Name:\tkthread\n"), None);
    }

    #[test]
    fn this_process_can_be_looked_at() {
        let used = usage(std::process::id()).unwrap();
        assert!(used.resident > 0);
    }
}
