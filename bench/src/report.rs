//! The figures as a page: what was measured, on what, and how it compares.

use std::fmt::Write as _;
use std::time::Duration;

use crate::engine::WAITING;
use crate::gateway::{CONNECTIONS, Figures, LIGHT_RATE, STEADY_RATE};
use crate::machine;

/// One line of the engine's table.
#[derive(Clone, Debug)]
pub struct EngineLine {
    /// Agents.
    pub agents: usize,
    /// What the queue waits for.
    pub waits: &'static str,
    /// Cycles in a second, the middle of the rounds.
    pub median: f64,
    /// The best round.
    pub best: f64,
}

/// The engine's table.
pub fn engine_table(lines: &[EngineLine]) -> String {
    let rows = lines.iter().map(|line| {
        vec![
            line.agents.to_string(),
            line.waits.to_owned(),
            thousands(line.median),
            thousands(line.best),
        ]
    });
    table(
        &[
            "agents",
            "the queue waits",
            "cycles/s, median",
            "best round",
        ],
        rows,
    )
}

/// The proxies' table: figures, then the ratio to Envoy where it was measured.
pub fn gateway_table(all: &[Figures]) -> String {
    let direct = all.iter().find(|figures| figures.is_direct());
    let direct_p50 = direct
        .and_then(|figures| figures.light.quantile(500))
        .unwrap_or_default();
    let envoy = all.iter().find(|figures| figures.name == "Envoy");
    let rows = all.iter().map(|figures| {
        let quantile = |permille| figures.light.quantile(permille).unwrap_or_default();
        let added = quantile(500).saturating_sub(direct_p50);
        let cost = |cost: f64, of_envoy: Option<f64>| match (figures.is_direct(), of_envoy) {
            (true, _) => "–".to_owned(),
            (false, Some(envoy)) if envoy > 0.0 => format!("{cost:.1} ({:.2}×)", cost / envoy),
            (false, _) => format!("{cost:.1}"),
        };
        let name = match figures.version.as_str() {
            "" => figures.name.clone(),
            version => format!("{} {version}", figures.name),
        };
        let own = |text: String| {
            if figures.is_direct() {
                "–".to_owned()
            } else {
                text
            }
        };
        vec![
            name,
            thousands(figures.saturated.rate()),
            cost(
                figures.saturated.micros_each(),
                envoy.map(|it| it.saturated.micros_each()),
            ),
            cost(
                figures.steady.micros_each(),
                envoy.map(|it| it.steady.micros_each()),
            ),
            millis(quantile(500)),
            own(millis(added)),
            millis(quantile(990)),
            own(format!("{:.0}", figures.resident as f64 / 1_048_576.0)),
            figures.failed.to_string(),
        ]
    });
    table(
        &[
            "proxy",
            "saturated, requests/s",
            "CPU each, saturated, µs (÷ Envoy)",
            "CPU each, 1,000/s, µs (÷ Envoy)",
            "p50 at 100/s, ms",
            "added p50, ms",
            "p99, ms",
            "RSS, MiB",
            "failed",
        ],
        rows,
    )
}

/// The whole page.
pub fn page(
    engine: &[EngineLine],
    gateway: &[Figures],
    busy: Option<f64>,
    rounds: usize,
) -> String {
    let mut text = String::from("# Benchmarks\n\n");
    let _ = writeln!(
        text,
        "Written by `cargo xtask bench`, which measures everything in one run; run it on your own\n\
         machine to get your own figures. They depend on the machine, the ratios much less.\n\n\
         - date: {}\n- commit: {}\n- machine: {}",
        machine::today(),
        machine::commit(),
        machine::describe(),
    );
    if let Some(busy) = busy {
        let _ = writeln!(
            text,
            "- load average of the minute before the run: {busy:.1}"
        );
    }
    let _ = writeln!(
        text,
        "\n## Engine\n\n\
         One core, no I/O, {} calls waiting. A cycle is all that one call costs the engine:\n\
         ask, grant, sent, report, end of body, and its four records.\n\n{}",
        thousands(WAITING as f64),
        engine_table(engine),
    );
    if gateway.is_empty() {
        return text;
    }
    let _ = writeln!(
        text,
        "## Gateway\n\n\
         Each proxy alone on one core; load and upstream on another. {rounds} rounds in turns. Reads\n\
         with an answer of 1 KiB over plain HTTP/1.1. The governor journals every call to disk.\n\n\
         - saturated: {CONNECTIONS} connections, the next request when the last is answered\n\
         - {}/s and {LIGHT_RATE}/s: open loop; times count from the schedule\n\
         - CPU: user and kernel, all processes and threads of the proxy\n\
         - added: to the median of direct calls in the same run\n\n{}",
        thousands(f64::from(STEADY_RATE)),
        gateway_table(gateway),
    );
    text
}

/// A table in Markdown that also reads well as it is.
fn table(head: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let head: Vec<String> = head.iter().map(ToString::to_string).collect();
    let rows: Vec<Vec<String>> = rows.collect();
    let widths: Vec<usize> = (0..head.len())
        .map(|column| {
            let cells = std::iter::once(&head)
                .chain(&rows)
                .filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        })
        .collect();
    let line = |cells: &[String]| {
        let padded = cells.iter().zip(&widths).map(|(cell, width)| {
            let fill = width - cell.chars().count();
            format!(" {cell}{} |", " ".repeat(fill))
        });
        format!("|{}\n", padded.collect::<String>())
    };
    let rule: String = widths
        .iter()
        .map(|width| format!("{}|", "-".repeat(width + 2)))
        .collect();
    let body: String = rows.iter().map(|row| line(row)).collect();
    format!("{}|{rule}\n{body}", line(&head))
}

fn millis(time: Duration) -> String {
    format!("{:.2}", time.as_secs_f64() * 1e3)
}

/// A whole number with its thousands apart.
fn thousands(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::Cost;

    fn figures(name: &str, micros: u64, p50: u64) -> Figures {
        let cost = Cost {
            answers: 1_000,
            wall: Duration::from_secs(1),
            processor: Duration::from_micros(1_000 * micros),
        };
        let mut figures = Figures {
            name: name.to_owned(),
            saturated: cost,
            steady: cost,
            resident: 30 << 20,
            ..Figures::default()
        };
        figures.light.add(Duration::from_micros(p50));
        figures
    }

    #[test]
    fn costs_are_compared_with_envoy_and_times_with_direct_calls() {
        let all = [
            figures("direct", 0, 100),
            figures("Envoy", 40, 300),
            figures("rategov", 60, 450),
        ];
        let text = gateway_table(&all);
        let last = text.lines().last().unwrap();
        assert!(last.contains("60.0 (1.50×)"), "{text}");
        assert!(last.contains("| 0.45 "), "{text}");
        assert!(last.contains("| 0.35 "), "{text}");
        assert!(last.contains("| 30 "), "{text}");
        let widths: Vec<usize> = text.lines().map(|line| line.chars().count()).collect();
        assert!(widths.windows(2).all(|pair| pair[0] == pair[1]), "{text}");
    }

    #[test]
    fn without_envoy_there_is_no_ratio() {
        let text = gateway_table(&[figures("direct", 0, 100), figures("rategov", 60, 450)]);
        assert!(text.contains("| 60.0 "), "{text}");
        assert!(!text.contains('×'), "{text}");
    }

    #[test]
    fn thousands_are_set_apart() {
        assert_eq!(thousands(999.6), "1,000");
        assert_eq!(thousands(1_234_567.0), "1,234,567");
        assert_eq!(thousands(12.0), "12");
    }
}
