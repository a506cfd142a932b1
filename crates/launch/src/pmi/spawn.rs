//! The one request of PMI-1 with several lines: start more processes (`MPI_Comm_spawn`).
//!
//! ```text
//!   mcmd=spawn            a message for each command; the answer comes after the last
//!   nprocs=4
//!   execname=./worker
//!   totspawns=1           commands of the request
//!   spawnssofar=1         which of them this is, from 1
//!   argcnt=2
//!   arg1=-v
//!   arg2=fast
//!   preput_num=1          what stands in the new job's key-value space from the beginning
//!   preput_key_0=k
//!   preput_val_0=v
//!   info_num=1            what the caller wishes
//!   info_key_0=wdir
//!   info_val_0=/tmp
//!   endcmd
//! ```

use super::wire::{KEY_MAX_BYTES, VALUE_MAX_BYTES, WireError};
use std::fmt::Write;

#[cfg(any(test, feature = "controller"))]
/// Most arguments, wishes and values of a message.
const LIST_MAX: usize = 65_536;
#[cfg(any(test, feature = "controller"))]
/// Most commands of a request.
const PARTS_MAX: usize = 4096;

/// One command and how many processes are to run it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The program.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// How many processes.
    pub count: u32,
    /// Wishes: `wdir`, `path`, `host`, `file` (MPI-5.0 §11.8.4), and what else callers have.
    pub hints: Vec<(String, String)>,
}

impl Part {
    /// The value of a wish.
    pub fn hint(&self, key: &str) -> Option<&str> {
        self.hints.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
    }
}

/// A whole request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Spawn {
    /// The commands.
    pub parts: Vec<Part>,
    /// Initial content of the new job's key-value space.
    pub values: Vec<(String, String)>,
}

fn bad(field: &'static str, value: &str) -> WireError {
    WireError::BadField { field, value: value.chars().take(60).collect() }
}

fn line<'a>(field: &'static str, value: &'a str) -> Result<&'a str, WireError> {
    if value.chars().any(char::is_control) { Err(bad(field, value)) } else { Ok(value) }
}

/// The messages of a request.
///
/// # Errors
/// [`WireError::BadField`]: text with a line's end or another control character, too long a key or value.
pub fn emit(parts: &[Part], values: &[(&str, &str)]) -> Result<Vec<u8>, WireError> {
    let mut out = String::new();
    for (at, part) in parts.iter().enumerate() {
        let (count, total, so_far) = (part.count, parts.len(), at + 1);
        let _ = writeln!(out, "mcmd=spawn\nnprocs={count}\nexecname={}", line("execname", &part.program)?);
        let _ = writeln!(out, "totspawns={total}\nspawnssofar={so_far}\nargcnt={}", part.args.len());
        for (number, arg) in part.args.iter().enumerate() {
            let _ = writeln!(out, "arg{}={}", number + 1, line("arg", arg)?);
        }
        let _ = writeln!(out, "preput_num={}", values.len());
        for (number, (key, value)) in values.iter().enumerate() {
            let is_short = key.len() <= KEY_MAX_BYTES && value.len() <= VALUE_MAX_BYTES;
            let key = if is_short { line("key", key)? } else { return Err(bad("value", value)) };
            let _ = writeln!(out, "preput_key_{number}={key}\npreput_val_{number}={}", line("value", value)?);
        }
        let _ = writeln!(out, "info_num={}", part.hints.len());
        for (number, (key, value)) in part.hints.iter().enumerate() {
            let (key, value) = (line("key", key)?, line("value", value)?);
            let _ = writeln!(out, "info_key_{number}={key}\ninfo_val_{number}={value}");
        }
        out.push_str("endcmd\n");
    }
    Ok(out.into_bytes())
}

#[cfg(any(test, feature = "controller"))]
/// One message, as [`first_message`](super::wire::first_message) cut it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) part: Part,
    pub(crate) values: Vec<(String, String)>,
    /// Which command of how many.
    pub(crate) so_far: usize,
    pub(crate) total: usize,
}

#[cfg(any(test, feature = "controller"))]
impl Message {
    pub(crate) fn parse(text: &str) -> Result<Self, WireError> {
        let missing = |field| WireError::Missing { command: "spawn".to_owned(), field };
        let pairs: Vec<(&str, &str)> = text.lines().filter_map(|line| line.split_once('=')).collect();
        let get = |key: &str| pairs.iter().find(|(known, _)| *known == key).map(|(_, value)| *value);
        let number = |field: &'static str, otherwise: Option<usize>, most: usize| match get(field) {
            None => otherwise.ok_or_else(|| missing(field)),
            Some(text) => {
                text.trim().parse().ok().filter(|number| *number <= most).ok_or_else(|| bad(field, text))
            }
        };
        let program = get("execname").filter(|name| !name.is_empty()).ok_or_else(|| missing("execname"))?;
        let count = number("nprocs", None, i32::MAX as usize)?;
        let (total, so_far) =
            (number("totspawns", Some(1), PARTS_MAX)?, number("spawnssofar", Some(1), PARTS_MAX)?);
        if count == 0 || so_far == 0 || so_far > total {
            return Err(bad("spawnssofar", &format!("{so_far} of {total}, {count} processes")));
        }
        // Bounded by the message, of which each takes a line.
        let list = |count: usize, key: &dyn Fn(usize) -> String, field| {
            let text = |at| get(&key(at)).map(str::to_owned).ok_or_else(|| missing(field));
            (0..count.min(pairs.len() + 1)).map(text).collect::<Result<Vec<String>, _>>()
        };
        let args = list(number("argcnt", Some(0), LIST_MAX)?, &|at| format!("arg{}", at + 1), "arg")?;
        let table = |count: usize, name: &str| -> Result<Vec<(String, String)>, WireError> {
            let keys = list(count, &|at| format!("{name}_key_{at}"), "key")?;
            Ok(keys.into_iter().zip(list(count, &|at| format!("{name}_val_{at}"), "value")?).collect())
        };
        let values = table(number("preput_num", Some(0), LIST_MAX)?, "preput")?;
        let hints = table(number("info_num", Some(0), LIST_MAX)?, "info")?;
        if values.iter().any(|(key, value)| key.len() > KEY_MAX_BYTES || value.len() > VALUE_MAX_BYTES) {
            return Err(bad("value", "preput"));
        }
        let part = Part { program: program.to_owned(), args, count: count as u32, hints };
        Ok(Self { part, values, so_far, total })
    }
}

#[cfg(test)]
mod tests {
    use super::super::wire::first_message;
    use super::*;
    use proptest::prelude::*;

    fn text() -> impl Strategy<Value = String> {
        "[ -~]{1,30}"
    }

    fn part() -> impl Strategy<Value = Part> {
        let hints = proptest::collection::vec(("[a-z]{1,9}", text()), 0..3);
        (text(), proptest::collection::vec(text(), 0..5), 1u32..100, hints)
            .prop_map(|(program, args, count, hints)| Part { program, args, count, hints })
    }

    proptest! {
        #[test]
        fn parse_undoes_emit(
            parts in proptest::collection::vec(part(), 1..4),
            key in "[a-z]{1,9}",
            value in text(),
        ) {
            let bytes = emit(&parts, &[(&key, &value)]).unwrap();
            let mut rest = &bytes[..];
            for (at, part) in parts.iter().enumerate() {
                let length = first_message(rest).unwrap().unwrap();
                let message = Message::parse(std::str::from_utf8(&rest[..length]).unwrap()).unwrap();
                prop_assert_eq!(&message.part, part);
                prop_assert_eq!((message.so_far, message.total), (at + 1, parts.len()));
                prop_assert_eq!(message.values, vec![(key.clone(), value.clone())]);
                rest = &rest[length..];
            }
            prop_assert!(rest.is_empty());
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "(mcmd=spawn\n)?([a-z_0-9]{1,12}=[ -~]{0,9}\n){0,9}") {
            let _ = Message::parse(&text);
        }
    }

    #[test]
    fn what_is_wrong_is_refused() {
        let good = "mcmd=spawn\nnprocs=1\nexecname=a\nargcnt=1\narg1=x\nendcmd\n";
        assert!(Message::parse(good).is_ok());
        for (from, to) in [
            ("nprocs=1", "nprocs=0"),
            ("nprocs=1", "nprocs=-1"),
            ("execname=a", "execname="),
            ("argcnt=1", "argcnt=2"),
            ("argcnt=1", "argcnt=99999999"),
            ("argcnt=1", "totspawns=1\nspawnssofar=2"),
        ] {
            assert!(Message::parse(&good.replace(from, to)).is_err(), "{to}");
        }
        let part = Part { program: "a\nb".to_owned(), args: vec![], count: 1, hints: vec![] };
        assert!(emit(&[part], &[]).is_err());
    }
}
