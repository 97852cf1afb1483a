//! The demo's plot: one SVG file, no library.
//!
//! A row an experiment: on the left the calls that the provider let in and
//! refused, second by second, against what it allows; on the right how long
//! each person waited.

use std::fmt::Write as _;

use super::figures::{Allowed, Figures};

const WIDTH: f64 = 1_100.0;
const ROW: f64 = 150.0;
const LEFT: f64 = 210.0;
const PANEL: f64 = 400.0;
const GAP: f64 = 60.0;
const INNER: f64 = 95.0;

/// Draws the experiments in their order.
pub(super) fn svg(experiments: &[(&str, &Figures)], allowed: Allowed) -> String {
    let height = ROW * experiments.len() as f64 + 60.0;
    let time_max = experiments
        .iter()
        .map(|(_, figures)| figures.lasted_s)
        .fold(1.0, f64::max)
        .ceil();
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"22\" font-weight=\"bold\">calls a second at the provider: \
         let in (blue), refused (red), allowed (line)</text>\n\
         <text x=\"{}\" y=\"22\" font-weight=\"bold\">how long each person waited, in seconds \
         (log)</text>\n",
        LEFT + PANEL + GAP
    );
    for (row, (name, figures)) in experiments.iter().enumerate() {
        let top = 40.0 + ROW * row as f64;
        let _ = writeln!(
            out,
            "<text x=\"10\" y=\"{}\" font-weight=\"bold\">{name}</text>\n\
             <text x=\"10\" y=\"{}\">{} refused of {}</text>\n\
             <text x=\"10\" y=\"{}\">{:.1} % of the quota used</text>\n\
             <text x=\"10\" y=\"{}\">p95 wait {:.2} s</text>",
            top + 20.0,
            top + 40.0,
            figures.refused,
            figures.arrived,
            top + 56.0,
            100.0 * figures.utilisation,
            top + 72.0,
            figures.interactive_wait_p95_s,
        );
        rates(&mut out, figures, top, time_max, allowed);
        waits(&mut out, figures, top, time_max);
    }
    out.push_str("</svg>\n");
    out
}

fn rates(out: &mut String, figures: &Figures, top: f64, time_max: f64, allowed: Allowed) {
    let seconds = time_max as usize + 1;
    let mut counts = vec![(0_u32, 0_u32); seconds];
    for arrival in &figures.arrivals {
        let second = (arrival.at_s.max(0.0) as usize).min(seconds - 1);
        if arrival.accepted {
            counts[second].0 += 1;
        } else {
            counts[second].1 += 1;
        }
    }
    let most = counts.iter().map(|(a, r)| a + r).max().unwrap_or(1).max(10);
    let scale = INNER / f64::from(most);
    let bar = PANEL / seconds as f64;
    let base = top + INNER + 10.0;
    for (second, (accepted, refused)) in counts.iter().enumerate() {
        let x = LEFT + bar * second as f64;
        for (count, from, colour) in [(*accepted, 0, "#2b6cb0"), (*refused, *accepted, "#c53030")] {
            if count > 0 {
                let y = base - scale * f64::from(from + count);
                let height = scale * f64::from(count);
                let _ = writeln!(
                    out,
                    "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{bar:.2}\" height=\"{height:.1}\" fill=\"{colour}\"/>"
                );
            }
        }
    }
    let y = base - scale * allowed.units / allowed.per_s;
    let _ = writeln!(
        out,
        "<line x1=\"{LEFT}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"black\" stroke-dasharray=\"4 3\"/>\n\
         <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{most}</text>",
        LEFT + PANEL,
        LEFT - 4.0,
        base - INNER + 8.0,
    );
    axis(out, LEFT, base, time_max);
}

fn waits(out: &mut String, figures: &Figures, top: f64, time_max: f64) {
    let left = LEFT + PANEL + GAP;
    let base = top + INNER + 10.0;
    // From 10 ms to 100 s: four decades.
    let height = |wait: f64| INNER * (wait.clamp(0.01, 100.0).log10() + 2.0) / 4.0;
    for (wait, label) in [(0.1, "0.1"), (1.0, "1"), (10.0, "10")] {
        let y = base - height(wait);
        let _ = writeln!(
            out,
            "<line x1=\"{left}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>\n\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
            left + PANEL,
            left - 4.0,
            y + 4.0,
        );
    }
    for (at, wait) in &figures.waits {
        let x = left + PANEL * at / time_max;
        let y = base - height(*wait);
        let _ = writeln!(
            out,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"1.6\" fill=\"#276749\"/>"
        );
    }
    axis(out, left, base, time_max);
}

fn axis(out: &mut String, left: f64, base: f64, time_max: f64) {
    let _ = writeln!(
        out,
        "<line x1=\"{left}\" x2=\"{}\" y1=\"{base}\" y2=\"{base}\" stroke=\"black\"/>\n\
         <text x=\"{left}\" y=\"{}\">0</text>\n\
         <text x=\"{}\" y=\"{}\" text-anchor=\"end\">{time_max} s</text>",
        left + PANEL,
        base + 14.0,
        left + PANEL,
        base + 14.0,
    );
}
