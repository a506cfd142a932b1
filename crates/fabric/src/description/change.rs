//! A description with other values.

use toml::Value;

use super::error::{DescriptionError, Source};
use super::machine::Machine;

impl Machine {
    /// A text with other values under keys from the top with dots, such as `topology.extents`; a number
    /// names an entry of a list (`host_models.node.nic.0.rate_gbps`), and `None` takes the key out. Tables
    /// on the way are made. Lines and comments are not kept, so the text should have been read once: errors
    /// name its lines then.
    ///
    /// # Errors
    /// If the text is no TOML, or a key leads through something that is no table.
    pub fn change(
        file: &str,
        text: &str,
        values: impl IntoIterator<Item = (String, Option<Value>)>,
    ) -> Result<String, DescriptionError> {
        let source = Source { file: file.into(), text: text.into() };
        let mut table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
            source.error(error.span().unwrap_or(0..0), "", error.message(), "write it as TOML 1.0")
        })?;
        for (key, value) in values {
            put(&mut table, &key, value).map_err(|problem| {
                source.error(0..0, key, problem, "name a key, with dots between its parts")
            })?;
        }
        Ok(table.to_string())
    }
}

fn put(root: &mut toml::Table, key: &str, value: Option<Value>) -> Result<(), String> {
    let Some((first, rest)) = key.split_once('.') else {
        match value {
            Some(value) => root.insert(key.into(), value),
            None => root.remove(key),
        };
        return Ok(());
    };
    let below = root.entry(first).or_insert_with(|| Value::Table(toml::Table::new()));
    put_below(below, rest, value)
}

fn put_below(at: &mut Value, key: &str, value: Option<Value>) -> Result<(), String> {
    let (part, rest) = key.split_once('.').map_or((key, None), |(part, rest)| (part, Some(rest)));
    match at {
        Value::Table(table) => put(table, key, value),
        Value::Array(list) => {
            let count = list.len();
            let place = part.parse::<usize>().ok().and_then(|number| list.get_mut(number));
            let place =
                place.ok_or_else(|| format!("the list has {count} entries, from 0, and no {part}"))?;
            match (rest, value) {
                (Some(rest), value) => put_below(place, rest, value)?,
                (None, Some(value)) => *place = value,
                (None, None) => drop(list.remove(part.parse().unwrap_or(count))),
            }
            Ok(())
        }
        _ => Err(format!("what is before {part} is no table")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "name = \"x\"\n[topology]\nextents = [2, 2]\nkind = \"torus\"\n[host_models.h]\n\
                        nic = [{ rate_gbps = 1 }]\n";

    fn changed(key: &str, value: Option<Value>) -> Result<toml::Table, String> {
        let text = Machine::change("x.toml", TEXT, [(key.to_owned(), value)]);
        let text = text.map_err(|error| error.to_string())?;
        Ok(text.parse().expect("TOML"))
    }

    #[test]
    fn values_are_replaced_added_and_taken_out() {
        let table = changed("topology.extents", Some(vec![4, 4].into())).expect("a text");
        assert_eq!(table["topology"]["extents"], vec![4, 4].into());
        let table = changed("host_models.h.nic.0.rate_gbps", Some(10.into())).expect("a text");
        assert_eq!(table["host_models"]["h"]["nic"][0]["rate_gbps"], 10.into());
        let table = changed("plan.routing", Some("minimal".into())).expect("a text");
        assert_eq!(table["plan"]["routing"], "minimal".into());
        assert!(changed("topology.kind", None).expect("a text")["topology"].get("kind").is_none());
    }

    #[test]
    fn keys_that_lead_nowhere_are_refused() {
        for (key, expected) in [
            ("name.x", "what is before x is no table"),
            ("host_models.h.nic.1.rate_gbps", "the list has 1 entries, from 0, and no 1"),
            ("name.a.b", "what is before a is no table"),
        ] {
            let error = changed(key, Some(1.into())).expect_err(key);
            assert!(error.contains(expected) && error.starts_with(&format!("x.toml: {key}: ")), "{error}");
        }
    }
}
