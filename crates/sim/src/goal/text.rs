//! The text form.

use std::collections::HashMap;
use std::fmt::Write as _;

use super::{Kind, Operation, Problem, Schedule};

/// More ranks than any file has: a number beyond is a mistake, not a reason to take memory.
pub(super) const RANK_COUNT_MAX: u64 = 1 << 24;

/// A rank's operations and their lines.
type Operations = (Vec<Operation>, Vec<u32>);

/// A rank's block being read.
#[derive(Default)]
struct Block {
    operations: Vec<Operation>,
    lines: Vec<u32>,
    labels: HashMap<String, u32>,
    /// Line, who, on whom, whether on its start: labels may come later.
    wishes: Vec<(usize, String, String, bool)>,
}

pub(super) fn read(text: &str) -> Result<Schedule, Problem> {
    let mut ranks: Option<Vec<Option<Operations>>> = None;
    let mut open: Option<(usize, Block)> = None;
    let mut in_comment = false;
    let mut last_line = 0;
    for (index, raw) in text.lines().enumerate() {
        let line = index + 1;
        last_line = line;
        let stripped = without_comments(raw, &mut in_comment);
        let spaced = stripped.replace('{', " { ").replace('}', " } ").replace(':', ": ");
        let words: Vec<&str> = spaced.split_whitespace().collect();
        let wrong = |what: String| (Some(line), what);
        match (&words[..], &mut open) {
            ([], _) => {}
            (["num_ranks", count], None) if ranks.is_none() => {
                let count = number(count, "number of ranks").map_err(wrong)?;
                if count == 0 || count > RANK_COUNT_MAX {
                    return Err(wrong(format!("{count} ranks: 1 to {RANK_COUNT_MAX} are possible")));
                }
                ranks = Some((0..count).map(|_| None).collect());
            }
            (["rank", rank, "{"], None) => {
                let rank = number(rank, "rank").map_err(wrong)? as usize;
                let Some(ranks) = &ranks else {
                    return Err(wrong("'num_ranks N' must come before the first rank".into()));
                };
                match ranks.get(rank) {
                    None => return Err(wrong(format!("rank {rank} of {} ranks", ranks.len()))),
                    Some(Some(_)) => return Err(wrong(format!("rank {rank} comes twice"))),
                    Some(None) => open = Some((rank, Block::default())),
                }
            }
            (["}"], Some(_)) => {
                if let (Some((rank, block)), Some(ranks)) = (open.take(), &mut ranks) {
                    ranks[rank] = Some(block.finish()?);
                }
            }
            (words, Some((_, block))) => {
                let rank_count = ranks.as_ref().map_or(0, Vec::len) as u64;
                block.statement(line, words, rank_count).map_err(wrong)?;
            }
            (words, None) => {
                let what = words.join(" ");
                return Err(wrong(format!("'{what}' stands outside of 'rank R {{ … }}'")));
            }
        }
    }
    if let Some((rank, _)) = open {
        return Err((Some(last_line), format!("the block of rank {rank} is not closed by '}}'")));
    }
    if in_comment {
        return Err((Some(last_line), "a comment is not closed by '*/'".into()));
    }
    let ranks = ranks.ok_or((Some(last_line.max(1)), "no 'num_ranks N'".to_string()))?;
    let (ranks, lines) = ranks.into_iter().map(Option::unwrap_or_default).unzip();
    Ok(Schedule { ranks, lines, ..Schedule::default() })
}

fn without_comments(raw: &str, in_comment: &mut bool) -> String {
    let (mut out, mut rest) = (String::new(), raw);
    loop {
        if *in_comment {
            let Some(end) = rest.find("*/") else { return out };
            (rest, *in_comment) = (&rest[end + 2..], false);
            out.push(' ');
            continue;
        }
        match (rest.find("//"), rest.find("/*")) {
            (Some(line), block) if block.is_none_or(|block| line < block) => {
                out.push_str(&rest[..line]);
                return out;
            }
            (_, Some(block)) => {
                out.push_str(&rest[..block]);
                (rest, *in_comment) = (&rest[block + 2..], true);
            }
            _ => {
                out.push_str(rest);
                return out;
            }
        }
    }
}

fn number(word: &str, what: &str) -> Result<u64, String> {
    word.parse().map_err(|_| format!("'{word}' is no {what}"))
}

fn is_label(word: &str) -> bool {
    let mut chars = word.chars();
    chars.next().is_some_and(|first| first.is_ascii_alphabetic())
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

impl Block {
    fn statement(&mut self, line: usize, words: &[&str], rank_count: u64) -> Result<(), String> {
        if let [who, verb @ ("requires" | "irequires"), on] = words {
            self.wishes.push((line, (*who).into(), (*on).into(), *verb == "irequires"));
            return Ok(());
        }
        let (label, words) = match words {
            [first, rest @ ..] if first.ends_with(':') => (Some(first.trim_end_matches(':')), rest),
            _ => (None, words),
        };
        let operation = operation(words, rank_count)?;
        let index = self.operations.len() as u32;
        self.operations.push(operation);
        self.lines.push(u32::try_from(line).unwrap_or(u32::MAX));
        if let Some(label) = label {
            if !is_label(label) {
                return Err(format!("'{label}' is no label: a letter, then letters, digits and '_'"));
            }
            if self.labels.insert(label.into(), index).is_some() {
                return Err(format!("label '{label}' comes twice in this rank"));
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Operations, Problem> {
        for (line, who, on, start) in self.wishes {
            let index = |label: &String| {
                self.labels
                    .get(label)
                    .copied()
                    .ok_or((Some(line), format!("no operation '{label}' in this rank")))
            };
            let (who, on) = (index(&who)?, index(&on)?);
            let operation = &mut self.operations[who as usize];
            if start { operation.requires_start.push(on) } else { operation.requires.push(on) }
        }
        Ok((self.operations, self.lines))
    }
}

fn operation(words: &[&str], rank_count: u64) -> Result<Operation, String> {
    let size = |word: &str| {
        let digits = word.strip_suffix('b').ok_or(format!("'{word}' is no length: a number and 'b'"))?;
        number(digits, "length")
    };
    let peer = |word: &str| {
        let rank = number(word, "rank")?;
        if rank < rank_count {
            Ok(rank as u32)
        } else {
            Err(format!("rank {rank} is none of the {rank_count}"))
        }
    };
    let (mut kind, options) = match words {
        ["send", bytes, "to", to, options @ ..] => {
            (Kind::Send { bytes: size(bytes)?, to: peer(to)?, tag: 0 }, options)
        }
        ["recv", bytes, "from", from, options @ ..] => {
            let from = if *from == "-1" { None } else { Some(peer(from)?) };
            (Kind::Receive { bytes: size(bytes)?, from, tag: None }, options)
        }
        ["calc", time, options @ ..] => (Kind::Calculate { time_ns: number(time, "time in ns")? }, options),
        _ => {
            let what = words.join(" ");
            return Err(format!(
                "'{what}' is none of: send Nb to R, recv Nb from R, calc NS, A requires B, A irequires B"
            ));
        }
    };
    // As LogGOPSim has it, no tag is tag 0 on both sides.
    if let Kind::Receive { tag, .. } = &mut kind {
        *tag = Some(0);
    }
    let (mut cpu, mut nic) = (0, None);
    let mut options = options.iter();
    while let Some(&name) = options.next() {
        let value = *options.next().ok_or(format!("'{name}' without a value"))?;
        let byte = |what| {
            let value = number(value, what)?;
            u8::try_from(value).map_err(|_| format!("{what} {value}: 0 to 255 are possible"))
        };
        match (name, &mut kind) {
            ("tag", Kind::Receive { tag, .. }) if value == "-1" => *tag = None,
            ("tag", Kind::Receive { tag, .. }) => *tag = Some(tag_of(value)?),
            ("tag", Kind::Send { tag, .. }) => *tag = tag_of(value)?,
            ("cpu", _) => cpu = byte("cpu")?,
            ("nic", Kind::Send { .. } | Kind::Receive { .. }) => nic = Some(byte("nic")?),
            _ => return Err(format!("'{name}' does not belong here: tag, cpu or nic")),
        }
    }
    Ok(Operation { kind, cpu, nic, requires: Vec::new(), requires_start: Vec::new() })
}

fn tag_of(value: &str) -> Result<u32, String> {
    let tag = number(value, "tag")?;
    u32::try_from(tag)
        .ok()
        .filter(|&tag| tag <= i32::MAX as u32)
        .ok_or(format!("tag {tag}: 0 to {} are possible", i32::MAX))
}

pub(super) fn write(schedule: &Schedule) -> String {
    let mut out = format!("num_ranks {}\n", schedule.ranks.len());
    let any = |value: Option<u32>| value.map_or("-1".to_string(), |value| value.to_string());
    for (rank, operations) in schedule.ranks.iter().enumerate() {
        let _ = writeln!(out, "\nrank {rank} {{");
        for (index, Operation { kind, cpu, nic, .. }) in operations.iter().enumerate() {
            let by = nic.map_or(String::new(), |nic| format!(" nic {nic}"));
            let _ = match kind {
                Kind::Send { bytes, to, tag } => {
                    writeln!(out, "l{index}: send {bytes}b to {to} tag {tag} cpu {cpu}{by}")
                }
                Kind::Receive { bytes, from, tag } => {
                    let (from, tag) = (any(*from), any(*tag));
                    writeln!(out, "l{index}: recv {bytes}b from {from} tag {tag} cpu {cpu}{by}")
                }
                Kind::Calculate { time_ns } => writeln!(out, "l{index}: calc {time_ns} cpu {cpu}"),
            };
        }
        for (index, operation) in operations.iter().enumerate() {
            for on in &operation.requires {
                let _ = writeln!(out, "l{index} requires l{on}");
            }
            for on in &operation.requires_start {
                let _ = writeln!(out, "l{index} irequires l{on}");
            }
        }
        out.push_str("}\n");
    }
    out
}
