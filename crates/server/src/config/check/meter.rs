//! What calls cost: where requests and answers tell it, and how it is charged.

use rategov_core::cost::Dimension;
use rategov_core::estimate::{CachedInput, Charge, Charging, Rejects};
use rategov_core::observe::dialect::{Dialect, What};

use crate::config::mistake::Collector;
use crate::config::options::{
    AskedWord, ChargeOptions, ChargingWord, CountingWord, ProviderOptions, SizingOptions, ToldWord,
    UsageOptions,
};
use crate::config::place::Place;
use crate::config::presets::Presets;
use crate::config::units::shown;
use crate::gateway::meter::MeterRules;
use crate::gateway::meter::places::{self, is_name};
use crate::gateway::meter::rules::{Asked, ROWS_MAX, Row, Rules, Told};

/// Most members beside a place that are added to it.
const PLUS_MAX: usize = 4;

/// Where the cost of calls is told: what the user wrote is believed first, then the
/// preset, then what the generic preset knows of common dialects.
pub(super) fn rules(
    written: &ProviderOptions,
    preset: Option<&ProviderOptions>,
    presets: &Presets,
    place: Place<'_>,
    out: &mut Collector,
) -> MeterRules {
    let generic = presets.get(Presets::GENERIC);
    let generic = generic.filter(|it| !preset.is_some_and(|own| std::ptr::eq(own, *it)));
    let known = [preset, generic].into_iter().flatten();
    let mut sizing = Vec::new();
    let mut usage = Vec::new();
    let sources = std::iter::once((written, place)).chain(known.map(|it| (it, Place::nowhere())));
    for (options, place) in sources {
        let rows = options.sizing.as_deref().unwrap_or_default();
        for (index, row) in rows.iter().enumerate() {
            sizing.extend(sizing_row(row, place.key("sizing").part(index), out));
        }
        let rows = options.usage.as_deref().unwrap_or_default();
        for (index, row) in rows.iter().enumerate() {
            usage.extend(usage_row(row, place.key("usage").part(index), out));
        }
    }
    for (rows, key) in [(sizing.len(), "sizing"), (usage.len(), "usage")] {
        if ROWS_MAX < rows {
            let what = format!("at most {ROWS_MAX} rows, those of the presets included");
            out.add(place.key(key).mark(), what);
        }
    }
    MeterRules {
        sizing: Rules::new(&sizing),
        usage: Rules::new(&usage),
        points_beside: false,
    }
}

/// Whether the cost that fields of answers tell is in points: where they tell of a
/// limit of points, it is. Of others it may be tokens.
pub(super) fn tell_points(dialect: &Dialect) -> bool {
    let fields = dialect.fields();
    fields.iter().any(|field| field.what == What::Cost)
        && fields
            .iter()
            .any(|field| field.dimension == Dimension::Points.word())
}

fn sizing_row(
    options: &SizingOptions,
    place: Place<'_>,
    out: &mut Collector,
) -> Option<Row<Asked>> {
    let places = paths(options.paths.as_deref(), place, out)?;
    let what = what(options.what, "most_output", place, out)?;
    Some(Row {
        what: Some(match what {
            AskedWord::MostOutput => Asked::MostOutput,
            AskedWord::Choices => Asked::Choices,
            AskedWord::InputTokens => Asked::InputTokens,
            AskedWord::Points => Asked::Points,
        }),
        places,
        plus: Vec::new(),
    })
}

fn usage_row(options: &UsageOptions, place: Place<'_>, out: &mut Collector) -> Option<Row<Told>> {
    let places = paths(options.paths.as_deref(), place, out)?;
    let what = what(options.what, "output", place, out)?;
    let plus = options.plus.clone().unwrap_or_default();
    let is_wrong = |name: &String| !is_name(name);
    if PLUS_MAX < plus.len() || plus.iter().any(is_wrong) {
        let cause = format!(
            "these are not the names of at most {PLUS_MAX} members\nhint: write `plus: [cache_read_input_tokens]`"
        );
        out.add(place.key("plus").mark(), cause);
    }
    Some(Row {
        what: match what {
            ToldWord::Input => Some(Told::Input),
            ToldWord::CachedInput => Some(Told::CachedInput),
            ToldWord::Output => Some(Told::Output),
            ToldWord::Total => Some(Told::Total),
            ToldWord::Points => Some(Told::Points),
            ToldWord::Spend => Some(Told::Spend),
            ToldWord::Text => None,
        },
        places,
        plus,
    })
}

fn what<W>(word: Option<W>, example: &str, place: Place<'_>, out: &mut Collector) -> Option<W> {
    if word.is_none() && !place.has("what") {
        let cause = format!("this row needs `what`\nhint: write `what: {example}`");
        out.add(place.mark(), cause);
    }
    word
}

fn paths(
    written: Option<&[String]>,
    place: Place<'_>,
    out: &mut Collector,
) -> Option<Vec<places::Place>> {
    let at = place.key("paths");
    let Some(written) = written.filter(|paths| !paths.is_empty()) else {
        if !place.has("paths") || written.is_some() {
            let cause = "this row needs `paths`\nhint: write `paths: [$.usage.output_tokens]`";
            out.add(at.mark(), cause);
        }
        return None;
    };
    if places::STEPS_MAX < written.len() {
        let cause = format!("a row has at most {} paths", places::STEPS_MAX);
        out.add(at.mark(), cause);
    }
    let mut known = Vec::new();
    for (index, text) in written.iter().enumerate() {
        match places::Place::parse(text) {
            Ok(path) => known.push(path),
            Err(cause) => {
                out.add(at.item(index).mark(), format!("`{}`: {cause}", shown(text)));
            }
        }
    }
    Some(known)
}

/// How a provider charges: the user's word, else the preset's, for each key.
pub(super) fn charge(written: &ProviderOptions, preset: Option<&ProviderOptions>) -> Charge {
    let none = ChargeOptions::default();
    let own = written.charge.as_ref().unwrap_or(&none);
    let known = preset.and_then(|it| it.charge.as_ref()).unwrap_or(&none);
    let charging =
        |of: fn(&ChargeOptions) -> Option<ChargingWord>| match of(own).or_else(|| of(known)) {
            None | Some(ChargingWord::Actual) => Charging::Actual,
            Some(ChargingWord::Most) => Charging::Most,
            Some(ChargingWord::MostThenRefund) => Charging::MostThenRefund,
        };
    let counts = |of: fn(&ChargeOptions) -> Option<CountingWord>| of(own).or_else(|| of(known));
    Charge {
        tokens: charging(|it| it.tokens),
        input_tokens: charging(|it| it.input_tokens),
        output_tokens: charging(|it| it.output_tokens),
        points: charging(|it| it.points),
        spend: charging(|it| it.spend),
        cached_input: match counts(|it| it.cached_input) {
            None | Some(CountingWord::Counted) => CachedInput::Counted,
            Some(CountingWord::Excluded) => CachedInput::Excluded,
        },
        rejects: match counts(|it| it.rejects) {
            None | Some(CountingWord::Excluded) => Rejects::Free,
            Some(CountingWord::Counted) => Rejects::Counted,
        },
        most_undeclared: own.most_undeclared.or(known.most_undeclared),
    }
}
