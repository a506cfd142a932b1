//! What a job would be: for `--dry-run`.

use super::run::{branches, place};
use crate::relay::agent::agent_command;
use crate::spec::{JobSpec, Reach};
use crate::tree::Branch;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Which ranks would be started where, of which program, and by which command, a line a host and program.
/// Where an agent starts others, that of which host.
///
/// # Errors
/// As [`super::run()`], where the job could not be placed.
pub fn describe(spec: &JobSpec) -> anyhow::Result<String> {
    let (names, host_of_rank) = place(spec)?;
    let mut text = String::new();
    let plural = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let count = plural(spec.ranks_count(), "rank");
    let _ = writeln!(text, "{count} on {}", plural(names.len(), "host"));
    let reach = Reach::new(spec.cluster.as_ref())?;
    let tree = branches(spec, names.iter().cloned(), &host_of_rank);
    let starters: BTreeMap<usize, usize> = tree.iter().flat_map(Branch::behind).collect();
    if !starters.is_empty() {
        let _ = writeln!(text, "{} started from here, which start the others", plural(tree.len(), "agent"));
    }
    for (host, name) in names.iter().enumerate() {
        match &spec.cluster {
            None => {
                let _ = writeln!(text, "{name}: this host");
            }
            Some(_) => {
                let command = agent_command(&reach, host, name)?;
                let words = std::iter::once(command.get_program()).chain(command.get_args());
                let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
                let from =
                    starters.get(&host).map(|&by| format!(" (from {})", names[by])).unwrap_or_default();
                let _ = writeln!(text, "{name}{from}: {}", words.join(" "));
            }
        }
        let programs: Vec<usize> = spec.program_numbers().collect();
        for (number, app) in spec.apps.iter().enumerate() {
            let is_its = |rank: &usize| host_of_rank[*rank] == host && programs[*rank] == number;
            let ranks: Vec<usize> = (0..host_of_rank.len()).filter(is_its).collect();
            if !ranks.is_empty() {
                let program = app.program.name.display();
                let _ = writeln!(
                    text,
                    "  {} {}: {program}",
                    if ranks.len() == 1 { "rank" } else { "ranks" },
                    ranges(&ranks)
                );
            }
        }
    }
    Ok(text)
}

/// Rising numbers as `0-3,7`.
fn ranges(numbers: &[usize]) -> String {
    let runs = numbers.chunk_by(|a, b| a + 1 == *b).map(|run| match run {
        [one] => one.to_string(),
        run => format!("{}-{}", run[0], run[run.len() - 1]),
    });
    runs.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hosts::HostSpec;
    use crate::spec::{App, Cluster, Program};

    fn app(name: &str, ranks_count: usize) -> App {
        let program = Program { name: name.into(), args: Vec::new(), env: Vec::new(), wdir: None };
        App { ranks_count, program }
    }

    #[test]
    fn behind_a_host_is_said_which_starts_it() {
        let cluster = Cluster {
            hosts: HostSpec::list("a,b,c,d,e").expect("hosts"),
            agent: vec!["reach".into(), "{host}".into()],
            branch_count: Some(2),
            rails: None,
            no_rails: None,
        };
        let spec = JobSpec { apps: vec![app("x", 5)], cluster: Some(cluster), ..JobSpec::default() };
        let text = describe(&spec).expect("placed");
        let heads = text.lines().filter_map(|line| line.split_once(": reach ")).map(|(head, _)| head);
        assert_eq!(heads.collect::<Vec<_>>(), ["a", "b (from a)", "c (from a)", "d", "e (from d)"], "{text}");
        assert_eq!(text.lines().nth(1), Some("2 agents started from here, which start the others"));
    }

    #[test]
    fn each_host_has_its_command_and_its_ranks() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect();
        let cluster = Cluster {
            hosts: HostSpec::list("a:2,b:2").expect("hosts"),
            agent: words("reach {host} as {index}"),
            branch_count: None,
            rails: None,
            no_rails: None,
        };
        let spec =
            JobSpec { apps: vec![app("x", 3), app("y", 1)], cluster: Some(cluster), ..JobSpec::default() };
        let text = describe(&spec).expect("placed");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "4 ranks on 2 hosts");
        assert!(lines[1].starts_with("a: reach a as 0 /") && lines[1].ends_with(" agent"), "{text}");
        assert_eq!(lines[2], "  ranks 0-1: x");
        assert!(lines[3].starts_with("b: reach b as 1 /"), "{text}");
        assert_eq!(lines[4..], ["  rank 2: x", "  rank 3: y"]);
    }
}
