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
            return Err(wrong(&key, unknown(&key, name, table.keys())));
        };
        let kind = match current {
            toml::Value::Integer(_) => "a whole number",
            toml::Value::Float(_) => "a number",
            toml::Value::Boolean(_) => "true or false",
            _ => "a text",
        };
        let mut new = toml::Value::try_from(&value).map_err(|_| {
            // TOML's whole numbers have a sign, and it has no null.
            wrong(
                &key,
                if value.is_u64() { format!("{value} is out of range") } else { format!("{value} is not {kind}") },
            )
        })?;
        if let (toml::Value::Float(_), Some(whole)) = (current, new.as_integer()) {
            new = toml::Value::Float(whole as f64);
        }
        if !new.same_type(current) {
            return Err(wrong(&key, format!("{value} is not {kind}")));
        }
        table.insert(key.clone(), new);
        // What was good before this change is not: the change is to blame.
        let whole = value.is_i64() || value.is_u64();
        let problem = |e: toml::de::Error| if whole { format!("{value} is out of range") } else { e.message().into() };
        table.clone().try_into::<T>().map_err(|e| wrong(&key, problem(e)))?;
    }
    table.try_into().map_err(|e| wrong(name, e.message().into()))
}

/// There is no such parameter: those like it, and where all are listed.
fn unknown<'a>(key: &str, preset: &str, names: impl Iterator<Item = &'a String>) -> String {
    let like: Vec<_> =
        names.filter(|name| name.contains(key) || key.contains(*name) || distance(key, name) <= 2).collect();
    let like: String = like.iter().take(3).map(|name| format!("{name}? ")).collect();
    format!("no such parameter; {like}`flashgauge sim describe {preset}` lists all")
}

/// Letters to put in, leave out or replace to get from one to the other (Levenshtein).
fn distance(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in to.bytes().enumerate() {
            let replaced = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_nearly_right_is_recognised() {
        for (from, to, letters) in [
            ("", "", 0),
            ("dies", "", 4),
            ("", "die", 3),
            ("die", "dies", 1),
            ("raed", "read", 2),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!((distance(from, to), distance(to, from)), (letters, letters), "{from}, {to}");
        }
        let names = ["dies", "read_us", "slc_read_us", "planes"].map(String::from);
        assert!(unknown("read_us", "p", names.iter()).starts_with("no such parameter; read_us? slc_read_us? `"));
        assert!(unknown("dyes", "p", names.iter()).contains("; dies? `flashgauge sim describe p`"));
        assert!(unknown("warp", "p", names.iter()).starts_with("no such parameter; `flash"));
    }
}
