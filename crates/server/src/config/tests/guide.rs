//! The guide says what the presets and the configuration say: its list, its recipe.

use crate::config::presets::Presets;

#[test]
fn the_guide_lists_every_preset_with_its_address_its_keys_and_its_variables() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/presets.md");
    let guide = std::fs::read_to_string(path).unwrap();
    let presets = Presets::built_in();
    let names = presets.names().filter(|name| *name != Presets::GENERIC);
    for name in names {
        let preset = presets.get(name).unwrap();
        let start = format!("| `{name}` |");
        let mut rows = guide.lines().filter(|line| line.starts_with(&start));
        let row = rows
            .next()
            .unwrap_or_else(|| panic!("{name} is not listed"));
        assert_eq!(rows.next(), None, "{name} is listed twice");
        let [_, _, address, keys, variables, ""] = row
            .trim_start_matches("| ")
            .split('|')
            .map(str::trim)
            .collect::<Vec<_>>()[..]
        else {
            panic!("{name}: a row has five columns");
        };
        match &preset.base_url {
            Some(url) => assert_eq!(address, format!("`{url}`"), "{name}"),
            None => assert!(address.starts_with("yours: `https://"), "{name}: {address}"),
        }
        let mut expected: Vec<&str> = preset
            .endpoints
            .iter()
            .flatten()
            .filter_map(|endpoint| endpoint.idempotency.as_ref()?.header.as_deref())
            .collect();
        expected.dedup();
        assert_eq!(keys, listed(&expected), "{name}: the key of writes");
        let sdk = preset
            .sdk
            .iter()
            .flat_map(|sdk| sdk.base_url.iter().flatten());
        let expected: Vec<&str> = sdk.filter_map(|it| it.variable.as_deref()).collect();
        assert_eq!(variables, listed(&expected), "{name}: what `exec` sets");
    }
}

fn listed(names: &[&str]) -> String {
    match names {
        [] => "–".to_owned(),
        names => format!("`{}`", names.join("`, `")),
    }
}

#[test]
fn two_presets_set_no_variable_twice() {
    let presets = Presets::built_in();
    let sdks = presets
        .names()
        .filter_map(|name| presets.get(name)?.sdk.as_ref());
    let mut variables: Vec<&str> = sdks
        .flat_map(|sdk| {
            let bases = sdk.base_url.iter().flatten();
            let bases = bases.filter_map(|it| it.variable.as_deref());
            bases.chain(sdk.key.iter().flatten().map(String::as_str))
        })
        .collect();
    let all = variables.len();
    variables.sort_unstable();
    variables.dedup();
    assert_eq!(variables.len(), all, "{variables:?}");
}

#[test]
fn the_recipe_for_nine_agents_loads_and_has_nine() {
    let guide = include_str!("../../../../../docs/guide/nine-agents.md");
    let (_, rest) = guide.split_once("```yaml\n").expect("there is a file");
    let (text, _) = rest.split_once("```").expect("it ends");
    let loaded = crate::config::read("rategov.yaml", text).expect("it has no mistake");
    assert_eq!(loaded.settings.agents.len(), 9);
    assert!(loaded.notices.is_empty(), "{:?}", loaded.notices);
}
