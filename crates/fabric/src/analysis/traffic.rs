//! A traffic matrix from a file: bytes by sender and receiver.
//!
//! Three forms, chosen by the file's name:
//!
//! * text: `FROM TO BYTES`, a line each; `#` begins a comment;
//! * `.csv`: the header `from,to,bytes` and a line each, or a matrix: a first line of an empty cell and the
//!   receivers' names, then a line for each sender;
//! * `.json`: a list of `{"from": "a", "to": "b", "bytes": 1000}`, or `{"a": {"b": 1000}}`.
//!
//! Entries for the same two hosts add up; what a host sends to itself crosses no link. Bytes may have a unit,
//! as [`crate::bytes`] says: `64K`, `64KiB`, `1.5MB`.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::bytes;
use crate::graph::HostId;
use crate::plan::Plan;

/// A flow: from, to, bytes.
pub type Flow = (HostId, HostId, u64);

/// An error in a traffic file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}{place}: {problem}; {remedy}")]
pub struct TrafficFileError {
    /// The file's name.
    pub file: String,
    /// Where in it: `:3` for the third line, `, entry 3` in JSON.
    pub place: String,
    /// The error there.
    pub problem: String,
    /// The remedy.
    pub remedy: String,
}

/// Reads the text of `file` for the hosts of a plan. The name says which form it is.
///
/// # Errors
/// An unreadable file, a host that the plan does not have, an invalid number, or no traffic at all: with the
/// place and the remedy.
pub fn read_traffic(plan: &Plan, file: &str, text: &str) -> Result<Vec<Flow>, TrafficFileError> {
    // Spreadsheets put a byte order mark before what they write as UTF-8.
    let text = text.trim_start_matches('\u{feff}');
    let hosts = plan.hosts.iter().map(|host| (host.name.as_str(), host.id)).collect();
    let mut reader = Reader { plan, file, hosts, flows: Vec::new() };
    match file.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase()).as_deref() {
        Some("csv") => reader.csv(text)?,
        Some("json") => reader.json(text)?,
        _ => reader.lines(text)?,
    }
    if reader.flows.is_empty() {
        return Err(reader.error("", "holds no traffic", "add a line: FROM TO BYTES"));
    }
    Ok(reader.flows)
}

struct Reader<'a> {
    plan: &'a Plan,
    file: &'a str,
    hosts: BTreeMap<&'a str, HostId>,
    flows: Vec<Flow>,
}

impl Reader<'_> {
    fn error(
        &self,
        place: impl Into<String>,
        problem: impl Into<String>,
        remedy: impl Into<String>,
    ) -> TrafficFileError {
        let [place, problem, remedy] = [place.into(), problem.into(), remedy.into()];
        TrafficFileError { file: self.file.to_owned(), place, problem, remedy }
    }

    fn host(&self, place: &str, name: &str) -> Result<HostId, TrafficFileError> {
        self.hosts.get(name).copied().ok_or_else(|| {
            let known: Vec<&str> = self.plan.hosts.iter().take(3).map(|host| host.name.as_str()).collect();
            let more = if self.plan.hosts.len() > known.len() { " and so on" } else { "" };
            let known = known.join(", ");
            let remedy = format!("hosts are called {known}{more}, as the machine description says");
            self.error(place, format!("there is no host {name:?}"), remedy)
        })
    }

    fn add(&mut self, place: &str, from: &str, to: &str, text: &str) -> Result<(), TrafficFileError> {
        let count = bytes::parse(text).ok_or_else(|| {
            self.error(place, format!("{text:?} is no number of bytes"), format!("write {}", bytes::FORMS))
        })?;
        let flow = (self.host(place, from)?, self.host(place, to)?, count);
        self.flows.push(flow);
        Ok(())
    }

    fn lines(&mut self, text: &str) -> Result<(), TrafficFileError> {
        for (index, line) in text.lines().enumerate() {
            let place = format!(":{}", index + 1);
            let words: Vec<&str> = line.split('#').next().unwrap_or_default().split_whitespace().collect();
            match words.as_slice() {
                [] => {}
                [from, to, bytes] => self.add(&place, from, to, bytes)?,
                // `10 MB` is as clear.
                [from, to, number, unit] if unit.starts_with(char::is_alphabetic) => {
                    self.add(&place, from, to, &format!("{number}{unit}"))?
                }
                words => {
                    let problem = format!("a line is FROM TO BYTES, and this has {} words", words.len());
                    return Err(self.error(place, problem, "for other forms name the file .csv or .json"));
                }
            }
        }
        Ok(())
    }

    fn csv(&mut self, text: &str) -> Result<(), TrafficFileError> {
        let cells = |line: &str| -> Vec<String> {
            line.split(',').map(|cell| cell.trim().trim_matches('"').to_owned()).collect()
        };
        let mut rows = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let Some((index, header)) = rows.next().map(|(index, line)| (index, cells(line))) else {
            return Ok(());
        };
        let is_list = header.iter().map(|cell| cell.to_ascii_lowercase()).eq(["from", "to", "bytes"]);
        if !is_list && header.first().is_some_and(|corner| !corner.is_empty()) {
            let problem = format!("the first line is {:?}", header.join(","));
            let remedy =
                "begin with `from,to,bytes`, or a matrix with an empty cell and the receivers' names";
            return Err(self.error(format!(":{}", index + 1), problem, remedy));
        }
        for (index, row) in rows.map(|(index, line)| (index, cells(line))) {
            let place = format!(":{}", index + 1);
            if row.len() != header.len() {
                let problem = format!("{} cells, where the first line has {}", row.len(), header.len());
                return Err(self.error(place, problem, "give every line as many"));
            }
            if is_list {
                self.add(&place, &row[0], &row[1], &row[2])?;
                continue;
            }
            for (to, bytes) in header.iter().zip(&row).skip(1).filter(|(_, bytes)| !bytes.is_empty()) {
                self.add(&place, &row[0], to, bytes)?;
            }
        }
        Ok(())
    }

    fn json(&mut self, text: &str) -> Result<(), TrafficFileError> {
        const FORMS: &str =
            "write [{\"from\": \"a\", \"to\": \"b\", \"bytes\": 1000}] or {\"a\": {\"b\": 1000}}";
        let value: Value = serde_json::from_str(text).map_err(|error| {
            self.error(format!(":{}", error.line()), format!("is no JSON: {error}"), FORMS)
        })?;
        match value {
            Value::Array(entries) => {
                for (index, entry) in entries.iter().enumerate() {
                    let place = format!(", entry {}", index + 1);
                    let names = ["from", "to"].map(|key| entry.get(key).and_then(Value::as_str));
                    let (&[Some(from), Some(to)], Some(bytes)) = (&names, entry.get("bytes")) else {
                        return Err(self.error(
                            place,
                            "lacks a name at \"from\" or \"to\", or \"bytes\"",
                            FORMS,
                        ));
                    };
                    self.add(&place, from, to, &plain(bytes))?;
                }
            }
            Value::Object(rows) => {
                for (from, row) in &rows {
                    let place = format!(", sender {from}");
                    let Value::Object(row) = row else {
                        return Err(self.error(place, "has no receivers", FORMS));
                    };
                    for (to, bytes) in row {
                        self.add(&place, from, to, &plain(bytes))?;
                    }
                }
            }
            _ => return Err(self.error("", "is neither a list nor an object", FORMS)),
        }
        Ok(())
    }
}

/// A number or a text, as it would stand in a text file.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::two_switches_and_four_hosts;

    fn read(file: &str, text: &str) -> Result<Vec<Flow>, String> {
        read_traffic(&two_switches_and_four_hosts(), file, text).map_err(|error| error.to_string())
    }

    fn flow(from: u32, to: u32, bytes: u64) -> Flow {
        (HostId(from), HostId(to), bytes)
    }

    #[test]
    fn every_form_says_the_same() {
        let flows = Ok(vec![flow(0, 2, 1_000), flow(1, 3, 2_048)]);
        assert_eq!(read("t.txt", "# who to whom\nnode0 node2 1000\n\nnode1 node3 2 KiB # twice\n"), flows);
        assert_eq!(read("t.csv", "from,to,bytes\nnode0,node2,1kB\nnode1,node3,2048\n"), flows);
        assert_eq!(read("t.csv", ",node2,node3\nnode0,1000,\nnode1,,2048\n"), flows);
        assert_eq!(read("t.csv", "\u{feff}from,to,bytes\r\nnode0,node2,1kB\r\nnode1,node3,2048\r\n"), flows);
        let list =
            r#"[{"from":"node0","to":"node2","bytes":1000},{"from":"node1","to":"node3","bytes":"2KiB"}]"#;
        assert_eq!(read("t.json", list), flows);
        assert_eq!(read("t.JSON", r#"{"node0":{"node2":1e3},"node1":{"node3":2048}}"#), flows);
    }

    #[test]
    fn every_bad_file_gives_one_clear_error() {
        let cases = [
            ("t", "", "t: holds no traffic; add a line"),
            ("t", "node0 node2\n", "t:1: a line is FROM TO BYTES, and this has 2 words"),
            ("t", "node0 node2 5 6\n", "t:1: a line is FROM TO BYTES, and this has 4 words"),
            (
                "t",
                "\nnode0 node9 1\n",
                "t:2: there is no host \"node9\"; hosts are called node0, node1, node2 and so on, as",
            ),
            ("t", "node0 node2 -1\n", "t:1: \"-1\" is no number of bytes"),
            ("t", "node0 node2 1 parsec\n", "\"1parsec\" is no number of bytes"),
            ("t", "node0 node2 1e300\n", "is no number of bytes; write a number from 0 to 9e15"),
            ("t", "node0 node2 NaN\n", "is no number of bytes"),
            ("t.csv", "node0,node2,1\n", "t.csv:1: the first line is \"node0,node2,1\"; begin with"),
            ("t.csv", "from,to,bytes\nnode0,node2\n", "t.csv:2: 2 cells, where the first line has 3"),
            ("t.csv", ",node2\nnode7,5\n", "t.csv:2: there is no host \"node7\""),
            ("t.json", "[{]", "t.json:1: is no JSON"),
            ("t.json", "3", "is neither a list nor an object"),
            ("t.json", r#"[{"from":"node0","bytes":1}]"#, "t.json, entry 1: lacks a name"),
            ("t.json", r#"{"node0":5}"#, "t.json, sender node0: has no receivers"),
            ("t.json", r#"{"node0":{"node2":true}}"#, "\"true\" is no number of bytes"),
        ];
        for (file, text, wanted) in cases {
            let error = read(file, text).unwrap_err();
            assert!(error.contains(wanted), "{file} {text:?}: {error}");
        }
    }
}
