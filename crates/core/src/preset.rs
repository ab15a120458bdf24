//! Presets: a TOML text with the source of each number, the defaults it leaves out, and changes on top of both.

use serde::de::DeserializeOwned;

use crate::error::TargetError;

/// The preset's text, and those lines of `defaults` whose parameters it does not say.
pub fn with_defaults(text: &str, defaults: &str) -> String {
    let key = |line: &str| line.split_once(" = ").map(|(key, _)| key.to_owned());
    let said: Vec<_> = text.lines().filter_map(key).collect();
    let left = defaults.lines().filter(|line| key(line).is_some_and(|key| !said.contains(&key)));
    text.lines().chain(left).map(|line| format!("{line}\n")).collect()
}

/// The parameters of a preset's whole text, with `overrides` (a JSON object) applied. An error names the parameter
/// that is wrong; `name` is the preset's.
pub fn parameters<T: DeserializeOwned>(name: &str, text: &str, overrides: &str) -> Result<T, TargetError> {
    let wrong = |name: &str, problem: String| TargetError::DriveParameter { name: name.into(), problem };
    let mut table: toml::Table = text.parse().map_err(|e| wrong(name, format!("{e}")))?;
    let changes: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(overrides).map_err(|e| wrong(name, format!("overrides: {e}")))?;
    for (key, value) in changes {
        let Some(current) = table.get(&key) else {
            let known: Vec<_> = table.keys().cloned().collect();
            return Err(wrong(&key, format!("no such parameter; there are: {}", known.join(", "))));
        };
        let mut new = toml::Value::try_from(&value).map_err(|e| wrong(&key, e.to_string()))?;
        if let (toml::Value::Float(_), Some(whole)) = (current, new.as_integer()) {
            new = toml::Value::Float(whole as f64);
        }
        if !new.same_type(current) {
            return Err(wrong(&key, format!("{value} is no {}", current.type_str())));
        }
        table.insert(key.clone(), new);
        // What was good before this change is not: the change is to blame.
        table.clone().try_into::<T>().map_err(|e| wrong(&key, e.message().into()))?;
    }
    table.try_into().map_err(|e| wrong(name, e.message().into()))
}
