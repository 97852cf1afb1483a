//! What machine this is, in a line or two, so that figures can be compared.

use std::fmt::Write as _;
use std::fs;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// Processor, cores, memory, kernel, and how busy it was.
pub fn describe() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cpu = read("/proc/cpuinfo");
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let online = cpu
        .lines()
        .filter(|line| line.starts_with("processor"))
        .count()
        .max(cores);
    let mut text = format!(
        "{}, {online} cores",
        field(&cpu, "model name").unwrap_or("unknown")
    );
    if let Some(kilobytes) = field(&read("/proc/meminfo"), "MemTotal")
        .and_then(|value| value.trim_end_matches(" kB").parse::<u64>().ok())
    {
        let _ = write!(text, ", {} GiB", kilobytes.div_ceil(1 << 20));
    }
    if cpu.contains("hypervisor") {
        text.push_str(", virtual");
    }
    let release = read("/proc/sys/kernel/osrelease");
    let _ = write!(
        text,
        ", Linux {}",
        release.trim().split('-').next().unwrap_or_default()
    );
    text
}

/// Processes that wanted a core in the last minute, beside what is measured if
/// read before it starts. `None` where the system does not say.
pub fn load() -> Option<f64> {
    fs::read_to_string("/proc/loadavg")
        .ok()?
        .split(' ')
        .next()?
        .parse()
        .ok()
}

/// Today in UTC, `YYYY-MM-DD`.
pub fn today() -> String {
    let seconds = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    date(seconds / 86_400)
}

/// The commit that is measured, short, with a mark if files differ from it.
pub fn commit() -> String {
    let output = Command::new("git")
        .args(["describe", "--always", "--dirty=+"])
        .output();
    output
        .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
        .unwrap_or_default()
}

/// A day counted from 1970 as a date (H. Hinnant's `civil_from_days`: years
/// begin in March there, so that the leap day comes last).
///
/// ```text
/// 0 → 1970-01-01    20786 → 2026-11-29
/// ```
fn date(day: u64) -> String {
    let shifted = day + 719_468;
    let (era, in_era) = (shifted / 146_097, shifted % 146_097);
    let year = (in_era - in_era / 1_460 + in_era / 36_524 - in_era / 146_096) / 365;
    let in_year = in_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * in_year + 2) / 153;
    let day = in_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    let year = era * 400 + year + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then_some(value.trim())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_dates() {
        assert_eq!(date(0), "1970-01-01");
        assert_eq!(date(11_016), "2000-02-29");
        assert_eq!(date(20_786), "2026-11-29");
    }

    #[test]
    fn a_field_is_found_by_its_whole_name() {
        let text = "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\n";
        assert_eq!(field(text, "model name"), Some("Some CPU @ 2 GHz"));
        assert_eq!(field(text, "model"), None);
    }
}
