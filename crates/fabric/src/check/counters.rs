//! Loads of links between two readings of the switches' counters, compared with the plan's.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use crate::graph::{LinkId, SwitchId};
use crate::plan::{Plan, SwitchPlan};

use super::difference::Difference;
use super::file::{ReadError, load};
use super::observed::same_port;

/// Bytes that each port sent between two readings, by the switch's own name for it.
pub type SentBytes = BTreeMap<String, u64>;

/// One direction of a link: what it carried and what was planned, as shares of all links whose counters are
/// known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeasuredLoad {
    /// The link.
    pub link: LinkId,
    /// The switch that sends.
    pub from: SwitchId,
    /// The switch that receives.
    pub to: SwitchId,
    /// Bytes sent over all cables.
    pub sent_bytes: u64,
    /// Share of all measured bytes, 0 to 1.
    pub measured_share: f64,
    /// Share of all planned load, 0 to 1.
    pub planned_share: f64,
}

/// A link may carry so much of everything that no route brings there: ARP, priming, LLDP.
const STRAY_SHARE_MAX: f64 = 0.01;
/// Differences between shares below this are not reported.
const SHARE_DIFFERENCE_MIN: f64 = 0.02;
/// Nor are measured shares within this factor of the planned.
const SHARE_RATIO_MAX: f64 = 1.5;

/// What the ports of a switch sent between two readings: `left.before.json` and `left.after.json`
/// (`ip -j -s link show`), or `left.before.txt` and `left.after.txt` with lines of PORT BYTES; `None` if
/// there are none.
///
/// # Errors
/// One reading without the other, a file that cannot be read or understood, counters that went back.
pub fn read_sent(folder: &Path, switch: &SwitchPlan) -> Result<Option<SentBytes>, ReadError> {
    let reading = |when: &str| -> Result<Option<SentBytes>, ReadError> {
        for kind in ["json", "txt"] {
            let Some((file, text)) = load(folder.join(format!("{}.{when}.{kind}", switch.name)))? else {
                continue;
            };
            let counted = if kind == "json" { from_json(&text) } else { from_lines(&text) };
            return counted.map(Some).map_err(|problem| ReadError { file, problem });
        }
        Ok(None)
    };
    let fail = |when: &str, problem: String| {
        Err(ReadError { file: folder.join(format!("{}.{when}", switch.name)), problem })
    };
    match (reading("before")?, reading("after")?) {
        (None, None) => Ok(None),
        (None, Some(_)) => fail("before.json", "is missing: there is a reading after it".into()),
        (Some(_), None) => fail("after.json", "is missing: there is a reading before it".into()),
        (Some(before), Some(after)) => {
            let mut sent = SentBytes::new();
            for (port, bytes) in after {
                // A port that was plugged in meanwhile began at 0.
                let Some(bytes) = bytes.checked_sub(before.get(&port).copied().unwrap_or(0)) else {
                    return fail("after", format!("{port} had sent more before: counters were cleared"));
                };
                sent.insert(port, bytes);
            }
            Ok(Some(sent))
        }
    }
}

#[derive(Deserialize)]
struct Link {
    #[serde(default)]
    ifname: String,
    stats64: Option<Stats>,
}

#[derive(Deserialize)]
struct Stats {
    tx: Sent,
}

#[derive(Deserialize)]
struct Sent {
    bytes: u64,
}

fn from_json(text: &str) -> Result<SentBytes, String> {
    let links: Vec<Link> =
        serde_json::from_str(text).map_err(|error| format!("is not `ip -j -s link show`: {error}"))?;
    let counted = links.into_iter().filter_map(|link| Some((link.ifname, link.stats64?.tx.bytes)));
    let counted: SentBytes = counted.collect();
    if counted.is_empty() { Err("has no counters; collect `ip -j -s link show`".into()) } else { Ok(counted) }
}

fn from_lines(text: &str) -> Result<SentBytes, String> {
    let mut counted = SentBytes::new();
    for (index, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [] => {}
            [first, ..] if first.starts_with('#') => {}
            [port, bytes] => {
                let bytes =
                    bytes.parse().map_err(|_| format!("line {}: {bytes:?} is no number", index + 1))?;
                counted.insert(port.to_owned(), bytes);
            }
            _ => return Err(format!("line {}: a line is PORT BYTES", index + 1)),
        }
    }
    Ok(counted)
}

/// Measured and planned load of every direction of a link whose sender's counters are known. `planned` has a
/// number for each channel (`2 * link + end`): flows or bytes, only their shares matter.
pub fn measured_loads(plan: &Plan, planned: &[u64], sent: &BTreeMap<String, SentBytes>) -> Vec<MeasuredLoad> {
    let mut loads = Vec::new();
    for link in &plan.links {
        for (end, other) in [(0, 1), (1, 0)] {
            let [own, far] = [end, other].map(|end| &link.ends[end]);
            let switch = plan.switch(own.switch);
            let Some(sent) = sent.get(&switch.name) else { continue };
            let ports = switch.ports.iter().filter(|port| own.ports.contains(&port.number));
            let bytes = ports.filter_map(|port| {
                sent.iter().find_map(|(name, &bytes)| same_port(&port.name, name).then_some(bytes))
            });
            let channel = planned.get(2 * link.id.index() + end).copied().unwrap_or(0);
            loads.push(MeasuredLoad {
                link: link.id,
                from: own.switch,
                to: far.switch,
                sent_bytes: bytes.sum(),
                measured_share: 0.0,
                planned_share: channel as f64,
            });
        }
    }
    let measured: f64 = loads.iter().map(|load| load.sent_bytes as f64).sum();
    let planned: f64 = loads.iter().map(|load| load.planned_share).sum();
    for load in &mut loads {
        load.measured_share = if measured > 0.0 { load.sent_bytes as f64 / measured } else { 0.0 };
        load.planned_share = if planned > 0.0 { load.planned_share / planned } else { 0.0 };
    }
    loads
}

/// Mismatches: links with traffic that no route uses; and, if the traffic `is_known` and not only assumed to
/// be uniform, links that carry much more or less than planned.
pub fn compare_loads(plan: &Plan, loads: &[MeasuredLoad], is_known: bool) -> Vec<Difference> {
    let mut differences = Vec::new();
    for load in loads {
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        let [measured, planned] = [load.measured_share, load.planned_share];
        let is_off = (measured - planned).abs() > SHARE_DIFFERENCE_MIN
            && (measured > planned * SHARE_RATIO_MAX || measured * SHARE_RATIO_MAX < planned);
        let to = &plan.switch(load.to).name;
        let what = if planned == 0.0 && measured > STRAY_SHARE_MAX {
            format!(
                "{} of all bytes went to {to}, where no route leads: frames are flooded, or a VLAN is \
                 where it should not be",
                percent(measured)
            )
        } else if is_known && is_off {
            format!("{} of all bytes went to {to}, planned {}", percent(measured), percent(planned))
        } else {
            continue;
        };
        differences.push(Difference { switch: plan.switch(load.from).name.clone(), port: None, what });
    }
    differences
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::two_switches_and_four_hosts;

    fn read(files: &[(&str, &str)]) -> Result<Option<SentBytes>, ReadError> {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        read_sent(folder.path(), &two_switches_and_four_hosts().switches[0])
    }

    #[test]
    fn both_kinds_of_readings_give_what_was_sent_between() {
        let json = |bytes: u64| {
            let stats = format!(r#"{{"rx": {{"bytes": 9}}, "tx": {{"bytes": {bytes}}}}}"#);
            format!(r#"[{{}}, {{"ifname": "1/g7", "stats64": {stats}}}]"#)
        };
        let sent = read(&[("left.before.json", &json(100)), ("left.after.json", &json(350))]).unwrap();
        assert_eq!(sent, Some(SentBytes::from([("1/g7".into(), 250)])));
        let sent = read(&[("left.before.txt", "# sent\n1/g7 5\n"), ("left.after.txt", "1/g7 9\n\n1/g8 2\n")]);
        assert_eq!(sent.unwrap(), Some(SentBytes::from([("1/g7".into(), 4), ("1/g8".into(), 2)])));
        assert_eq!(read(&[]).unwrap(), None);
    }

    #[test]
    fn readings_that_cannot_be_used_are_told() {
        for (files, what) in [
            (vec![("left.before.txt", "1/g7 5")], "after.json: is missing"),
            (vec![("left.after.txt", "1/g7 5")], "before.json: is missing"),
            (vec![("left.before.txt", "1/g7 5"), ("left.after.txt", "1/g7 4")], "counters were cleared"),
            (vec![("left.before.txt", "1/g7 x"), ("left.after.txt", "")], "line 1: \"x\" is no number"),
            (vec![("left.before.txt", "1 2 3"), ("left.after.txt", "")], "line 1: a line is PORT BYTES"),
            (vec![("left.before.json", "[{\"ifname\": \"a\"}]")], "has no counters"),
            (vec![("left.before.json", "x")], "is not `ip -j -s link show`"),
        ] {
            let error = read(&files).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        }
    }

    /// A load is named where it is both so much and so many times more or less than planned.
    #[test]
    fn small_differences_of_shares_are_none() {
        let plan = two_switches_and_four_hosts();
        let is_named = |measured_share: f64, planned_share: f64, is_known: bool| {
            let (from, to) = (SwitchId(0), SwitchId(1));
            let load =
                MeasuredLoad { link: LinkId(0), from, to, sent_bytes: 1, measured_share, planned_share };
            !compare_loads(&plan, &[load], is_known).is_empty()
        };
        // The last of each is at its limit.
        for (measured, planned) in [(0.3, 0.3), (0.31, 0.25), (0.25, 0.31), (0.75, 0.5), (0.5, 0.75)] {
            assert!(
                !is_named(measured, planned, true),
                "{measured} of {planned}: less than half as much again"
            );
        }
        for (measured, planned) in [(0.011, 0.001), (0.001, 0.011), (0.04, 0.02)] {
            assert!(!is_named(measured, planned, true), "{measured} of {planned}: too little to matter");
        }
        for (measured, planned) in [(0.05, 0.02), (0.02, 0.05), (0.76, 0.5), (0.4, 0.7)] {
            assert!(is_named(measured, planned, true), "{measured} of {planned}");
            assert!(
                !is_named(measured, planned, false),
                "{measured} of {planned}, of which nothing is known"
            );
        }
        // Where nothing is planned a little is.
        assert!(!is_named(0.01, 0.0, false) && is_named(0.011, 0.0, false));
    }

    #[test]
    fn each_direction_of_each_link_has_its_own_share() {
        let mut plan = two_switches_and_four_hosts();
        let mut second = plan.links[0].clone();
        second.id = LinkId(1);
        second.ends.iter_mut().for_each(|end| (end.ports, end.lag) = (vec![6], None));
        plan.links.push(second);
        let counted = |seven: u64, six: u64| SentBytes::from([("1/g7".into(), seven), ("1/g6".into(), six)]);
        let sent = BTreeMap::from([("left".into(), counted(10, 20)), ("right".into(), counted(30, 40))]);
        let shares = |planned: &[u64], sent: &BTreeMap<String, SentBytes>| -> Vec<(f64, f64)> {
            let loads = measured_loads(&plan, planned, sent);
            loads.iter().map(|load| (load.measured_share, load.planned_share)).collect()
        };
        assert_eq!(shares(&[4, 3, 2, 1], &sent), [(0.1, 0.4), (0.3, 0.3), (0.2, 0.2), (0.4, 0.1)]);
        // What is planned of no channel is nothing, and nothing has no shares.
        let idle = BTreeMap::from([("left".into(), counted(0, 0))]);
        assert_eq!(shares(&[5], &idle), [(0.0, 1.0), (0.0, 0.0)]);
        assert_eq!(shares(&[], &idle), [(0.0, 0.0); 2]);
    }

    #[test]
    fn loads_that_are_not_as_planned_are_named() {
        let plan = two_switches_and_four_hosts();
        let sent = |left: [u64; 2], right: u64| {
            let left = SentBytes::from([("1/g7".to_owned(), left[0]), ("1/g8".to_owned(), left[1])]);
            let right = SentBytes::from([("1/g7".to_owned(), right), ("1/g1".to_owned(), 1 << 40)]);
            BTreeMap::from([("left".to_owned(), left), ("right".to_owned(), right)])
        };
        let told = |planned: [u64; 2], sent: &BTreeMap<String, SentBytes>, is_known: bool| {
            let loads = measured_loads(&plan, &planned, sent);
            let differences = compare_loads(&plan, &loads, is_known);
            differences.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        // Both cables of a link count, hosts' ports do not.
        assert_eq!(measured_loads(&plan, &[1, 1], &sent([300, 200], 500))[0].measured_share, 0.5);
        assert_eq!(told([4, 4], &sent([300, 200], 500), true), Vec::<String>::new());
        assert_eq!(told([4, 4], &sent([900, 0], 100), false), Vec::<String>::new());
        assert_eq!(
            told([4, 4], &sent([900, 0], 100), true),
            [
                "left: 90.0 % of all bytes went to right, planned 50.0 %",
                "right: 10.0 % of all bytes went to left, planned 50.0 %",
            ]
        );
        let stray = told([4, 0], &sent([900, 0], 100), false);
        let begin = "right: 10.0 % of all bytes went to left, where no route leads";
        assert!(stray[0].starts_with(begin), "{stray:?}");
        assert_eq!(told([4, 0], &sent([995, 0], 5), false), Vec::<String>::new());
    }
}
