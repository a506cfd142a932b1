//! NSIM's run in BookSim2, a simulator of flits that others wrote, and in ours with the same settings: what
//! studies/network/pairwise.py has left in its file.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::Context as _;

use super::curves::NOTHING_OF_DRAWS;

const RUNS: &str = include_str!("../../../../studies/network/pairwise.csv");
/// Gaps of the table, thousandths of a packet time.
const GAPS_MILLI: [u32; 5] = [125, 250, 500, 750, 1_000];
/// Switches of the table: BookSim2's two, then ours.
const SWITCHES: [(&str, &str); 4] = [
    ("flit", "BookSim2, flit by flit"),
    ("packet", "BookSim2, packet by packet"),
    ("channel-first", "ours, `channel-first`"),
    ("round-robin", "ours, `round-robin`"),
];
/// What table 3 says, in the file's words.
const AS_STATED: (&str, &str) = ("entry", "per-channel");
/// A byte at 5 GB/s, ms.
const BYTE_MS: f64 = 2e-7;

/// Times of one setting: of each gap, cycles for each draw of start times.
type Times = BTreeMap<u32, BTreeMap<u32, f64>>;

/// Flit, cable, packets.
type Size = (u32, u32, u32);

/// The runs of table 3's router: for each size and switch.
struct Runs(BTreeMap<Size, BTreeMap<String, Times>>);

impl Runs {
    fn read(text: &str) -> anyhow::Result<Runs> {
        let mut runs = BTreeMap::<Size, BTreeMap<String, Times>>::new();
        for line in text.lines().skip(1) {
            let fields: Vec<&str> = line.split(',').collect();
            let &[_, switch, dateline, crossbar, flit, cable, packets, gap, seed, cycles] = &fields[..]
            else {
                anyhow::bail!("not a run: {line}")
            };
            if (dateline, crossbar) != AS_STATED {
                continue;
            }
            let number = |text: &str| text.parse::<u32>().with_context(|| format!("{text} in {line}"));
            let size = (number(flit)?, number(cable)?, number(packets)?);
            let gap_milli = (gap.parse::<f64>()? * 1e3).round() as u32;
            let times = runs.entry(size).or_default().entry(switch.into()).or_default();
            times.entry(gap_milli).or_default().insert(number(seed)?, cycles.parse()?);
        }
        Ok(Runs(runs))
    }
}

/// Least, mean and most, over the mean without gap.
fn effect(times: &Times, gap_milli: u32) -> Option<(f64, f64, f64)> {
    let unpaced = mean(times.get(&0)?);
    let own = times.get(&gap_milli)?;
    let least = own.values().copied().fold(f64::INFINITY, f64::min);
    let most = own.values().copied().fold(0.0, f64::max);
    Some((least / unpaced, mean(own) / unpaced, most / unpaced))
}

fn mean(times: &BTreeMap<u32, f64>) -> f64 {
    times.values().sum::<f64>() / times.len().max(1) as f64
}

/// The best mean effect at a gap below 1, and the gap.
fn best_below_one(times: &Times) -> Option<(f64, f64)> {
    let all = GAPS_MILLI.iter().filter(|&&gap| gap < 1_000);
    let all = all.filter_map(|&gap| Some((effect(times, gap)?.1, f64::from(gap) / 1e3)));
    all.min_by(|a, b| a.0.total_cmp(&b.0))
}

/// How many draws gain more than 2 % over themselves without gap at some gap below 1, of how many.
fn gaining_draws(times: &Times) -> (usize, usize) {
    let Some(unpaced) = times.get(&0) else { return (0, 0) };
    let gains = |(seed, without): (&u32, &f64)| {
        let below = times.range(1..1_000).filter_map(|(_, draws)| draws.get(seed));
        below.copied().fold(f64::INFINITY, f64::min) < 0.98 * without
    };
    (unpaced.iter().filter(|&draw| gains(draw)).count(), unpaced.len())
}

/// The report's part on it.
///
/// # Errors
/// The file of runs cannot be read.
pub(super) fn section() -> anyhow::Result<String> {
    let Runs(runs) = Runs::read(RUNS)?;
    let mut out = String::from(TEXT);
    for ((flit, cable_ns, packets), switches) in &runs {
        for (switch, name) in SWITCHES {
            let Some(times) = switches.get(switch) else { continue };
            let Some(unpaced) = times.get(&0) else { continue };
            let without_ms = mean(unpaced) * f64::from(*flit) * BYTE_MS;
            let _ = write!(out, "| {packets} of {flit} B, {cable_ns} ns | {name} | {} |", unpaced.len());
            let _ = write!(out, " {without_ms:.3} |");
            for gap in GAPS_MILLI {
                let cell = effect(times, gap)
                    .map(|(least, mean, most)| format!("{mean:.3} ({least:.2} to {most:.2})"));
                let _ = write!(out, " {} |", cell.unwrap_or_default());
            }
            let (gaining, draws) = gaining_draws(times);
            let _ = writeln!(out, " {gaining} of {draws} |");
        }
    }
    out.push('\n');
    let compared: Vec<Compared> =
        runs.iter().filter_map(|(size, switches)| compared(&mut out, *size, switches)).collect();
    conclusion(&mut out, &runs, &compared);
    out.push('\n');
    Ok(out)
}

/// The largest part by which mean times of `times` differ from those of `others`, over all gaps of both.
fn apart(times: &Times, others: &Times) -> f64 {
    let common = times.iter().filter_map(|(gap, draws)| Some(mean(draws) / mean(others.get(gap)?) - 1.0));
    common.map(f64::abs).fold(0.0, f64::max)
}

/// The largest part of their mean by which draws of one gap differ.
fn spread_of_draws(times: &Times) -> f64 {
    let one = |draws: &BTreeMap<u32, f64>| {
        let least = draws.values().copied().fold(f64::INFINITY, f64::min);
        (draws.values().copied().fold(0.0, f64::max) - least) / mean(draws)
    };
    times.values().map(one).fold(0.0, f64::max)
}

/// Flits in turn and whole packets, of one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Compared {
    /// Flits in turn gain where whole packets do not.
    flits_alone: bool,
    /// Their means differ by no more than draws of one gap do.
    within_draws: bool,
}

/// What the two simulators say of one size.
fn compared(
    out: &mut String,
    (flit, _, packets): Size,
    switches: &BTreeMap<String, Times>,
) -> Option<Compared> {
    let [flits, whole, ours] = ["flit", "packet", "channel-first"].map(|switch| switches.get(switch));
    let (flits, whole, ours) = (flits?, whole?, ours?);
    let (best_flits, best_whole) = (best_below_one(flits)?, best_below_one(whole)?);
    let told = |(effect, gap): (f64, f64)| format!("{effect:.3} at {gap}");
    let gains = |(effect, _): (f64, f64)| effect < 1.0 - NOTHING_OF_DRAWS;
    let verdict = match (gains(best_flits), gains(best_whole)) {
        (true, true) => "both gain",
        (true, false) => "only flits in turn gain",
        (false, true) => "only whole packets gain",
        (false, false) => "neither gains 5 %",
    };
    let (flits_apart, spread) = (apart(flits, whole), spread_of_draws(whole));
    let _ = writeln!(
        out,
        "- {packets} packets a message, flits of {flit} B: BookSim2's best below gap 1 is {} flit by flit \
         and {} packet by packet: {verdict}. Mean times flit by flit are within {:.1} % of those packet by \
         packet, and ours with channels allotted first within {:.1} % of the latter, whose draws differ by \
         up to {:.1} %.",
        told(best_flits),
        told(best_whole),
        100.0 * flits_apart,
        100.0 * apart(ours, whole),
        100.0 * spread
    );
    let flits_alone = gains(best_flits) && !gains(best_whole);
    Some(Compared { flits_alone, within_draws: flits_apart <= spread })
}

/// What follows for the paper's row.
fn conclusion(out: &mut String, runs: &BTreeMap<Size, BTreeMap<String, Times>>, compared: &[Compared]) {
    if compared.is_empty() {
        return;
    }
    out.push_str(if compared.iter().any(|one| one.flits_alone) {
        "\nSharing links flit by flit makes a gain at some length."
    } else if compared.iter().all(|one| one.within_draws) {
        "\nSharing links flit by flit makes no gain at these lengths, and no difference beyond that of \
         draws: nothing here says that it explains the paper's row."
    } else {
        "\nSharing links flit by flit makes no gain at these lengths, but more difference than draws do."
    });
    let Some(most) = runs.keys().map(|size| size.2).max() else { return };
    for ((flit, cable_ns, packets), switches) in runs.iter().filter(|(size, _)| size.2 == most) {
        let [first, turn] = ["channel-first", "round-robin"].map(|switch| switches.get(switch));
        let (Some(first), Some(turn)) = (first, turn) else { continue };
        let [first, turn] = [first, turn].map(gaining_draws);
        let _ = write!(
            out,
            " Of ours with {packets} packets, flits of {flit} B and cables of {cable_ns} ns, {} of {} draws \
             gain with channels allotted first, as table 3 is read here, and {} of {} with lanes in turn.",
            first.0, first.1, turn.0, turn.1
        );
        let Some(whole) = switches.get("packet") else { continue };
        let (gaining, draws) = gaining_draws(whole);
        let _ = write!(out, " BookSim2, packet by packet: {gaining} of {draws}.");
    }
    out.push('\n');
}

const TEXT: &str = "\
**BookSim2.** Flits of both channels may share a link in turn, which the simulator here does not do and \
classic routers do. So the same program was run by BookSim2, which allots a channel first and then the \
switch, flit by flit or for a whole packet (studies/network/pairwise.py). Ours with its settings stands \
below it, several draws of start times each, in brackets the least and the most of them over the mean \
without gap. The last column counts draws whose own curve is more than 2 % below 1 at a gap below 1. Coarse \
flits are quicker to simulate; their pipeline is as much longer. 547 packets are 1 MiB; flits of 16 B and \
cables of 5 ns are those of machines/nsim.toml.\n\n\
| packets, flits, cables | | draws | without gap, ms | at 0.125 | at 0.25 | at 0.5 | at 0.75 | at 1 \
| gain below 1 |\n\
|---|---|---|---|---|---|---|---|---|---|\n";

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "simulator,switch,dateline,crossbar,flit_bytes,cable_ns,packets,gap,seed,cycles\n";

    /// What is found of runs with and without a gap.
    fn found(flit: u32, packet: u32) -> (Option<Compared>, String) {
        let runs = [("flit", 0.0, 100), ("flit", 0.25, flit), ("packet", 0.0, 100), ("packet", 0.25, packet)];
        let ours = [("channel-first", 0.0, 101), ("channel-first", 0.25, 100)];
        let line = |(switch, gap, cycles): (&str, f64, u32)| {
            format!("s,{switch},entry,per-channel,64,0,34,{gap},1,{cycles}\n")
        };
        let lines: String = runs.into_iter().chain(ours).map(line).collect();
        let Runs(read) = Runs::read(&format!("{HEAD}{lines}")).unwrap();
        let mut out = String::new();
        (compared(&mut out, (64, 0, 34), &read[&(64, 0, 34)]), out)
    }

    #[test]
    fn verdict_on_flits_follows_the_runs() {
        for (flit, packet, alone, said) in [
            (90, 90, false, "both gain"),
            (90, 101, true, "only flits in turn gain"),
            (101, 90, false, "only whole packets gain"),
            (99, 98, false, "neither gains 5 %"),
        ] {
            let (found, text) = found(flit, packet);
            assert_eq!(found.map(|one| one.flits_alone), Some(alone), "{flit} {packet}");
            assert!(text.contains(said), "{text}");
        }
        // One draw has no spread, so what differs at all is more than draws do.
        let within = [(90, 90), (90, 91)].map(|(flit, packet)| found(flit, packet).0.unwrap().within_draws);
        assert_eq!(within, [true, false]);
        assert!(found(99, 100).1.contains("ours with channels allotted first within 1.0 %"));
    }

    #[test]
    fn the_committed_runs_are_read() {
        let out = section().unwrap();
        for (_, name) in SWITCHES {
            assert!(out.contains(name), "{name}");
        }
        assert!(Runs::read("simulator\nflit,entry\n").is_err());
    }

    #[test]
    fn a_draw_gains_over_itself() {
        let text = format!(
            "{HEAD}s,flit,entry,per-channel,64,0,34,0,1,100\ns,flit,entry,per-channel,64,0,34,0.25,1,97\n\
             s,flit,entry,per-channel,64,0,34,0,2,90\ns,flit,entry,per-channel,64,0,34,0.25,2,95\n\
             s,flit,wrap,per-channel,64,0,34,0,3,100\n"
        );
        let Runs(runs) = Runs::read(&text).unwrap();
        let times = &runs[&(64, 0, 34)]["flit"];
        assert_eq!(gaining_draws(times), (1, 2));
        assert_eq!(best_below_one(times), Some((192.0 / 190.0, 0.25)));
    }
}
