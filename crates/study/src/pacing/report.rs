//! The page that sets the paper's findings beside ours, and the table.

use std::fmt::Write as _;

use super::ablation;
use super::cases::{Case, ORDERS, Pacing, Partner, Shape, Traffic};
use super::curves::{Curve, NOTHING, NOTHING_OF_DRAWS, length, spread};
use super::experiment::Limits;
use super::findings::{Finding, Verdict};
use super::plot::{Line, Panel};

/// What links limit: of each main ring (of its shortest messages), and of all-to-all by order.
#[derive(Debug, Default)]
pub(super) struct LinkLoads {
    pub(super) ring: Vec<(Case, Limits)>,
    pub(super) exchange: Vec<(Case, Limits)>,
}

/// What the page is made of.
pub(super) struct Input<'a> {
    pub(super) command: String,
    pub(super) origin: &'a str,
    pub(super) curves: &'a [Curve],
    pub(super) loads: &'a LinkLoads,
    pub(super) findings: &'a [Finding],
    /// NSIM's run in another simulator.
    pub(super) booksim: &'a str,
    /// Runs there are, and runs in the grid.
    pub(super) run_count: (usize, usize),
}

pub(super) fn page(input: &Input<'_>) -> String {
    let mut out = String::from("# Packet pacing on FX10: the paper and this library\n\n");
    let (done, all) = input.run_count;
    let _ = writeln!(
        out,
        "Made by `{}` ({}). {done} of {all} runs of the grid{}.\n\n\
         Every time is that of real processes of this library (matching, rendezvous, requests) on the simulated network of \
         machines/fx10.toml, but one-sided all-to-all, which is below MPI: bare writes, each begun when the one before has left \
         the NIC, means over four draws of start times. *Effect*: time over time without gap; lower is better. *Gap*: silence of a NIC after each \
         packet, in packet times. The paper: H. Shibamura, \"Performance evaluation of communication applications using \
         packet pacing on Fujitsu FX10\", IPSJ SIG HPC, 2014. Its plots are not in numbers, so shapes are compared, not \
         values. Less than {:.0} % is called no effect ({:.0} % where start times are drawn).\n",
        input.command,
        input.origin,
        if done < all { "; what is missing was not run (the command goes on where it stopped)" } else { "" },
        NOTHING * 100.0,
        NOTHING_OF_DRAWS * 100.0
    );
    findings_table(&mut out, input);
    differences(&mut out, input);
    nsim(&mut out, input);
    ring_section(&mut out, input);
    exchange_section(&mut out, input);
    beyond_section(&mut out, input);
    variants_section(&mut out, input);
    method_section(&mut out);
    out
}

fn main_ring<'a>(input: &Input<'a>) -> impl Iterator<Item = &'a Curve> {
    input.curves.iter().filter(|curve| curve.is_main_ring())
}

fn findings_table(out: &mut String, input: &Input<'_>) {
    out.push_str("## The paper's findings and ours\n\n| the paper | here | |\n|---|---|---|\n");
    for finding in input.findings {
        // A bar would end the cell.
        let here = finding.here.replace('|', "/");
        let _ = writeln!(out, "| {} | {here} | {} |", finding.paper, finding.verdict.name());
    }
    out.push('\n');
}

/// Where we differ, with what the runs tell of the reason.
fn differences(out: &mut String, input: &Input<'_>) {
    let verdicts: Vec<Verdict> = input.findings.iter().map(|finding| finding.verdict).collect();
    let differs = |index: usize| matches!(verdicts[index], Verdict::Partly | Verdict::Differs);
    let mut text = String::new();
    if differs(0) || differs(1) {
        knee(&mut text, input);
    }
    if differs(3) {
        text.push_str(
            "**Length.** A message of 16 KiB is 9 packets, and 32 of them leave a node: already that fills all buffers, so \
             that the steady state is reached with short messages and longer ones only stay in it. Software costs, which on \
             FX10 hide the network from short messages, are small here (below 1 µs a message).\n\n",
        );
    }
    if differs(5) || differs(6) || differs(7) {
        orders(&mut text, input);
        apart(&mut text, input);
        ablation::orders_section(&mut text, input.curves);
    }
    if !text.is_empty() {
        out.push_str("## Where ours differs, and why\n\n");
        out.push_str(&text);
    }
}

/// What NSIM's row depends on, whatever it says.
fn nsim(out: &mut String, input: &Input<'_>) {
    let mut text = String::new();
    ablation::nsim_section(&mut text, input.curves);
    if !text.is_empty() {
        out.push_str("## What NSIM's row depends on\n\n");
        out.push_str(&text);
        out.push_str(input.booksim);
    }
}

fn knee(out: &mut String, input: &Input<'_>) {
    out.push_str(
        "**Shape of the random ring.** What limits is the busiest link. \"Offered\" is what the NICs offer it, as a multiple \
         of what it can carry; \"part used\" is the least time that it needs over the time that the run took.\n\n\
         | nodes | offered | gap that just loads it fully | best gap, by length | part used without gap | at the best gap | effect at half the best gap |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for (case, limits) in &input.loads.ring {
        let own: Vec<&Curve> =
            main_ring(input).filter(|curve| curve.nodes() == case.shape.node_count()).collect();
        let list = |figure: &dyn Fn(&Curve) -> f64, digits: usize| {
            own.iter().map(|curve| format!("{:.digits$}", figure(curve))).collect::<Vec<_>>().join(", ")
        };
        // The same link is busiest whatever the length.
        let used = |curve: &Curve| {
            limits.time_ps() * (curve.case.bytes as f64 / case.bytes as f64) / curve.unpaced_ps as f64
        };
        let ratio = limits.ratios.first().copied().unwrap_or(0.0);
        let _ = writeln!(
            out,
            "| {} | {ratio:.2} | {:.2} | {} | {} | {} | {} |",
            case.shape.node_count(),
            (ratio - 1.0).max(0.0),
            list(&|curve| curve.best().0, 1),
            list(&used, 2),
            list(&|curve| used(curve) / curve.best().1, 2),
            list(&|curve| at(curve, curve.best().0 / 2.0), 2)
        );
    }
    out.push_str(
        "\nWithout gap buffers are full far back from the busiest links, and packets that do not even use those links stand \
         behind ones that do: a good part of the links' time is lost. That goes on for every gap with which NICs still offer \
         more than this network can carry in steady state (less than its busiest link could: four packets of buffer a \
         lane), and the time hardly depends on how much more: curves stay near 1, or \
         rise a little. Why they rise is not known; that the gap follows a packet which had to wait for room \
         is not why (docs/pacing.md has what was tried). Only near the gap that ends the overload \
         does the time fall, and from there on it is what NICs need: (1 + gap) times their unpaced time. On \
         FX10 it falls from gap 0 \
         on: there the overload costs less, or a gap below the knee relieves more. FX10's routers are not published.\n\n",
    );
    hypothesis(out, input);
}

/// What other routers change: the cause of the difference, as far as a run can tell.
fn hypothesis(out: &mut String, input: &Input<'_>) {
    let own: Vec<&Curve> = input.curves.iter().filter(|curve| curve.is_hypothetical_ring()).collect();
    if own.is_empty() {
        return;
    }
    out.push_str(
        "**A hypothesis.** The same ring with routers that let the oldest packet go first and have 32 KiB a lane, all else as \
         before. The three together (with the channel of a ring chosen on entry, which both machines have) come nearest to the paper; \
         that FX10 is so is not known.\n\n![hypothetical machine](random-ring-hypothetical.svg)\n\n\
         | nodes | length | worst before the best gap: stated | hypothetical | best effect: stated | hypothetical |\n\
         |---|---|---|---|---|---|\n",
    );
    for curve in own {
        let same = |other: &&Curve| {
            other.is_main_ring() && (other.nodes(), other.case.bytes) == (curve.nodes(), curve.case.bytes)
        };
        let stated = input.curves.iter().find(same);
        let figure =
            |of: fn(&Curve) -> f64| stated.map_or("not run".into(), |curve| format!("{:.2}", of(curve)));
        let _ = writeln!(
            out,
            "| {} | {} | {} | {:.2} | {} | {:.2} |",
            curve.nodes(),
            length(curve.case.bytes),
            figure(Curve::worst_before_best),
            curve.worst_before_best(),
            figure(|curve| curve.best().1),
            curve.best().1
        );
    }
    out.push('\n');
}

/// The effect at the run nearest a gap.
fn at(curve: &Curve, gap: f64) -> f64 {
    let nearest = curve.points.iter().min_by(|a, b| (a.0 - gap).abs().total_cmp(&(b.0 - gap).abs()));
    nearest.map_or(1.0, |point| point.1)
}

fn orders(out: &mut String, input: &Input<'_>) {
    out.push_str(
        "**Rank orders of all-to-all.** How many of the 63 steps put more than one message on some link at once, what the \
         busiest link needs in all steps together, and what the run takes without gap:\n\n\
         | rank order | pairs by | steps with a shared link | most on one link | least time, ms | run, ms | part used |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for (case, limits) in &input.loads.exchange {
        let shared = limits.ratios.iter().filter(|&&ratio| ratio > 1.0).count();
        let most = limits.ratios.iter().copied().fold(0.0, f64::max);
        let Traffic::AllToAll(_, partner) = case.traffic else { continue };
        let by = partner.name();
        let Some(curve) = input.curves.iter().find(|curve| curve.case == *case) else { continue };
        let (least, run) = (limits.time_ps() / 1e9, curve.unpaced_ps as f64 / 1e9);
        let _ = writeln!(
            out,
            "| {} | {by} | {shared} | {most} | {least:.3} | {run:.3} | {:.2} |",
            case.order_name(),
            least / run
        );
    }
    out.push_str("\nA gap can win no more than the part that is not used.");
    let sorted = |limits: &Limits| {
        let mut sorted = limits.ratios.clone();
        sorted.sort_by(f64::total_cmp);
        sorted
    };
    let is_xor = |case: &Case| matches!(case.traffic, Traffic::AllToAll(_, Partner::Xor));
    let mut by_xor =
        input.loads.exchange.iter().filter(|(case, _)| is_xor(case)).map(|loads| sorted(&loads.1));
    let first = by_xor.next();
    if first.is_some() && by_xor.all(|other| Some(other) == first) {
        out.push_str(
            " With `rank XOR step` on axes of 4, 2 and 8 another rank order does the same 63 steps in another order: their \
             link loads are the same, number for number. So while all ranks are in the same step, orders cannot differ; they \
             do when ranks are apart, and one step runs into the next.",
        );
    }
    out.push_str("\n\n");
}

/// What a gap does to ranks that are not in the same step.
fn apart(out: &mut String, input: &Input<'_>) {
    let together = |case: &Case| {
        let same = |curve: &&Curve| {
            let other = &curve.case;
            curve.is_one_sided()
                && !curve.is_apart()
                && (other.traffic, other.bytes) == (case.traffic, case.bytes)
        };
        input.curves.iter().find(same)
    };
    let own: Vec<&Curve> =
        input.curves.iter().filter(|curve| curve.is_one_sided() && curve.is_apart()).collect();
    if own.is_empty() {
        return;
    }
    out.push_str(
        "**Ranks apart.** The paper's program writes one-sided and waits for nobody in between, and nothing brings its ranks \
         together but the job's start or a barrier of software: they begin microseconds apart (NSIM was given a few ns). Means \
         over four draws:\n\n\
         | rank order | length | starts within | without gap, ms | if all begin at once | best gap below 1 | time there, ms | if all begin at once |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for curve in own {
        let below_one = curve.points.iter().filter(|point| point.0 > 0.0 && point.0 < 1.0);
        let Some(&(gap, effect)) = below_one.min_by(|a, b| a.1.total_cmp(&b.1)) else { continue };
        let ms = |curve: &Curve, effect: f64| curve.unpaced_ps as f64 / 1e9 * effect;
        let at_once = |gap: f64| {
            let other = together(&curve.case)?;
            other.effect_at(gap).map(|effect| format!("{:.2}", ms(other, effect)))
        };
        let _ = writeln!(
            out,
            "| {} | {} | {} | {:.2} | {} | {gap} | {:.2} | {} |",
            curve.case.order_name(),
            length(curve.case.bytes),
            spread(curve.case.start_spread_ns),
            ms(curve, 1.0),
            at_once(0.0).unwrap_or_default(),
            ms(curve, effect),
            at_once(gap).unwrap_or_default()
        );
    }
    out.push_str(
        "\nWithout gap ranks that are apart stay so: messages of different steps share links that each step alone would leave \
         to one or two. Where a gap below 1 helps, its time is near what ranks that begin at once need with that gap: the gap \
         brings ranks back into step. Likely so: a message that has its links to itself is slowed down by the gap, two that \
         share one hardly are, so that those ahead lose and those behind catch up; from gap 1 on two messages pass a shared \
         link without touching, and nothing pulls any more. Ranks that begin as far apart as a step takes (100 µs) are not \
         brought back. FX10's gain is small; how far apart its ranks began the paper does not say.\n\n",
    );
}

fn order_name(order: [usize; 3]) -> String {
    let [a, b, c] = order.map(|axis| super::cases::ALL_TO_ALL_EXTENTS[axis]);
    format!("{a}x{b}x{c}")
}

fn ring_section(out: &mut String, input: &Input<'_>) {
    out.push_str(
        "## Random ring\n\n16 processes a node, four NICs a node, a torus of three axes.\n\n![random ring](random-ring.svg)\n\n\
         | nodes | length | without gap, ms | best gap | effect there | worst before it | effect at the largest gap |\n\
         |---|---|---|---|---|---|---|\n",
    );
    main_ring(input)
        .for_each(|curve| curve_row(out, &format!("{} ({})", curve.nodes(), curve.case.shape), curve));
    out.push('\n');
}

fn curve_row(out: &mut String, name: &str, curve: &Curve) {
    let ((gap, best), (last_gap, last)) = (curve.best(), curve.last());
    let _ = writeln!(
        out,
        "| {name} | {} | {:.3} | {gap} | {best:.3} | {:.2} | {last:.2} (gap {last_gap}) |",
        length(curve.case.bytes),
        curve.unpaced_ps as f64 / 1e9,
        curve.worst_before_best(),
    );
}

fn exchange_section(out: &mut String, input: &Input<'_>) {
    out.push_str(
        "## All-to-all\n\nPairwise exchange (`rank XOR step`), 64 nodes 4x2x8, one process and one NIC a node, data moved by \
         put.\n\n![all-to-all](all-to-all.svg)\n\n\
         | rank order | length | without gap, ms | best gap | effect there | worst before it | effect at the largest gap |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for curve in input.curves.iter().filter(|curve| curve.is_main_exchange()) {
        curve_row(out, &curve.case.order_name(), curve);
    }
    let mut apart = input.curves.iter().filter(|curve| curve.is_one_sided() && curve.is_apart()).peekable();
    if apart.peek().is_some() {
        let _ = write!(
            out,
            "\n### Ranks apart\n\nThe same steps by one-sided writes, which wait for nobody, by ranks that begin apart; means of \
             four draws. The figure is of starts within {}.\n\n![all-to-all, ranks apart](all-to-all-apart.svg)\n\n\
             | rank order | length | without gap, ms | best gap | effect there | worst before it | effect at the largest gap |\n\
             |---|---|---|---|---|---|---|\n",
            spread(super::cases::SPREAD_OF_ALL_LENGTHS_NS)
        );
    }
    for curve in apart {
        let name =
            format!("{}, starts within {}", curve.case.order_name(), spread(curve.case.start_spread_ns));
        curve_row(out, &name, curve);
    }
    out.push('\n');
}

/// A way of choosing gaps, by its number (thousandths).
struct Way {
    name: &'static str,
    of: fn(u32) -> Pacing,
}

const WAYS: [Way; 5] = [
    Way { name: "gap by hops beyond the first (MOD)", of: Pacing::PerHop },
    Way { name: "gap from the machine alone", of: Pacing::FromMachine },
    Way { name: "gap by hops (MOD), its mean from the machine", of: Pacing::PerHopFromMachine },
    Way { name: "gap from who sends to whom", of: Pacing::FromTraffic },
    Way { name: "gap of each message from its own way", of: Pacing::PerMessageFromTraffic },
];

impl Way {
    /// The number with the best mean effect over these curves, and that mean: one number for all of them.
    fn best_value(&self, curves: &[&Curve]) -> Option<(u32, f64)> {
        let mut values: Vec<u32> =
            curves.iter().flat_map(|curve| &curve.beyond).map(|tried| tried.0.value()).collect();
        values.sort_unstable();
        values.dedup();
        let mean = |&value: &u32| {
            let effects: Vec<f64> =
                curves.iter().filter_map(|curve| Some(curve.with((self.of)(value))?.1)).collect();
            (effects.len() == curves.len())
                .then(|| (value, effects.iter().sum::<f64>() / effects.len().max(1) as f64))
        };
        values.iter().filter_map(mean).min_by(|a, b| a.1.total_cmp(&b.1))
    }
}

fn beyond_section(out: &mut String, input: &Input<'_>) {
    out.push_str(
        "## Beyond the paper\n\nThe best fixed gap has to be searched by running the program again and again, for each \
         number of nodes and each length. These ways need at most one number, the same for all:\n\n\
         - *MOD pacing*, the paper's future work: so much gap for each hop of a message beyond the first.\n\
         - *From the machine*: the gap with which uniform traffic loads the busiest link to a given part. Topology, routes and \
         number of NICs are all it needs: an MPI library knows them when it starts.\n\
         - *From who sends to whom*: the same with the links' real loads; and for each message from its own way.\n\n",
    );
    out.push_str("![gap by hop count](gap-by-hops.svg)\n\n");
    by_hops(out, input);
    for (what, is_ring) in [("Random ring", true), ("All-to-all", false)] {
        let tried = |curve: &&Curve| curve.is_ring() == is_ring && !curve.beyond.is_empty();
        let curves: Vec<&Curve> = input.curves.iter().filter(tried).collect();
        if !curves.is_empty() {
            ways_table(out, what, &curves);
        }
    }
}

/// Whether a gap by hop count beats the best gap that is the same for all.
fn by_hops(out: &mut String, input: &Input<'_>) {
    let best = |curve: &Curve| {
        let of_hops = |tried: &&(Pacing, f64, f64)| matches!(tried.0, Pacing::PerHop(_));
        curve.beyond.iter().filter(of_hops).map(|tried| tried.2).min_by(f64::total_cmp)
    };
    let pairs: Vec<(f64, f64)> =
        main_ring(input).filter_map(|curve| Some((best(curve)?, curve.best().1))).collect();
    let (better, worse) = (
        pairs.iter().filter(|pair| pair.0 < pair.1 - NOTHING).count(),
        pairs.iter().filter(|pair| pair.0 > pair.1 + NOTHING).count(),
    );
    let _ = writeln!(
        out,
        "Does a gap by hop count beat the best constant gap? On the random ring, each with its best number for that curve: \
         better by more than 2 % for {better} of {} curves, worse for {worse}.\n",
        pairs.len()
    );
}

fn ways_table(out: &mut String, what: &str, curves: &[&Curve]) {
    let best = curves.iter().map(|curve| curve.best().1).sum::<f64>() / curves.len() as f64;
    let _ = writeln!(
        out,
        "### {what}\n\n{} curves. Each way with its best number for all of them:\n\n\
         | way | number | mean effect | better than no gap | worse | better than the best fixed gap |\n|---|---|---|---|---|---|\n\
         | best fixed gap of each curve, by search | | {best:.3} | {} | 0 | |",
        curves.len(),
        curves.iter().filter(|curve| curve.best().1 < 1.0 - NOTHING).count()
    );
    let chosen: Vec<(&Way, u32, f64)> = WAYS
        .iter()
        .filter_map(|way| way.best_value(curves).map(|(value, mean)| (way, value, mean)))
        .collect();
    for (way, value, mean) in &chosen {
        let pairs: Vec<(f64, f64)> = curves
            .iter()
            .filter_map(|curve| Some((curve.with((way.of)(*value))?.1, curve.best().1)))
            .collect();
        let count = |holds: fn(&(f64, f64)) -> bool| pairs.iter().filter(|pair| holds(pair)).count();
        let _ = writeln!(
            out,
            "| {} | {} | {mean:.3} | {} | {} | {} |",
            way.name,
            f64::from(*value) / 1_000.0,
            count(|pair| pair.0 < 1.0 - NOTHING),
            count(|pair| pair.0 > 1.0 + NOTHING),
            count(|pair| pair.0 < pair.1 - NOTHING)
        );
    }
    out.push_str("\nEffects (and mean gaps) by curve, with those numbers:\n\n| | best fixed gap |");
    for (way, ..) in &chosen {
        let _ = write!(out, " {} |", way.name);
    }
    let _ = writeln!(out, "\n|---|---|{}", "---|".repeat(chosen.len()));
    for curve in curves {
        let name = match curve.is_ring() {
            true => format!("{} nodes", curve.nodes()),
            false => curve.case.columns().split(',').next().unwrap_or_default().to_string(),
        };
        let (gap, best) = curve.best();
        let _ = write!(out, "| {name}, {} | {best:.3} ({gap}) |", length(curve.case.bytes));
        for (way, value, _) in &chosen {
            let (gap, effect) = curve.with((way.of)(*value)).unwrap_or((0.0, 1.0));
            let _ = write!(out, " {effect:.3} ({gap:.2}) |");
        }
        out.push('\n');
    }
    out.push('\n');
}

fn variants_section(out: &mut String, input: &Input<'_>) {
    let is_told_already = |curve: &Curve| {
        curve.is_main_ring()
            || curve.is_hypothetical_ring()
            || curve.is_nsim()
            || curve.is_ablation()
            || curve.is_main_exchange()
            || curve.is_one_sided() && curve.is_apart()
    };
    let others: Vec<&Curve> = input.curves.iter().filter(|curve| !is_told_already(curve)).collect();
    if others.is_empty() {
        return;
    }
    out.push_str(
        "## What other assumptions change\n\nThe machine's own 6-D network (`tofu`, units of 2x3x2) in place of the torus that \
         programs see; one NIC a node in place of four; `rank ± step` in place of `rank XOR step`; one-sided in place of both \
         sides waiting; start times spread wider.\n\n| | length | without gap, ms | best gap | effect there | worst before it | effect at the largest gap |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for curve in others {
        let case = &curve.case;
        let traffic = case.columns().split(',').next().unwrap_or_default().to_string();
        let name = match (case.traffic, case.shape) {
            (Traffic::Ring, Shape::Tofu(_)) => format!("ring, {} nodes, {}", curve.nodes(), case.shape),
            (Traffic::Ring, _) => format!("ring, {} nodes, {} NIC", curve.nodes(), case.nic_count),
            _ if curve.is_apart() => format!("{traffic}, starts within {}", spread(case.start_spread_ns)),
            _ => traffic,
        };
        curve_row(out, &name, curve);
    }
    out.push('\n');
}

fn method_section(out: &mut String) {
    out.push_str(
        "## How it was run\n\n\
         - machines/nsim.toml is the paper's table 3, with which NSIM ran all-to-all on 4x2x8. machines/fx10.toml is the \
         hardware; what is not published of its routers is that table's. Both allot channels first, those of \
         a link in turn (`channel-first`): the table has a stage for it and says round robin, and with that \
         rings take as long as in BookSim2 and CAMINOS (docs/compared.md). A cable's latency is in neither: \
         the simulator's default. Dimension order X, Y, \
         Z; a ring's virtual channel chosen on entry.\n\
         - The extents of tori below 768 nodes are not in the paper: they double from 2x3x4 to its 8x6x16.\n\
         - Random ring: every process exchanges with both neighbours by non-blocking calls, once; the order is drawn from the \
         seed; rendezvous by get, each process on one of its node's four NICs in turn. FX10's MPI and its software costs are \
         not modelled: the library's defaults stand in.\n\
         - A gap acts on the data of long messages, as in the paper's MPI; a NIC keeps it whichever message comes next.\n\
         - The same seed gives the same picoseconds on every machine. All numbers: results.csv.\n",
    );
}

/// The table for a terminal: best gaps and effects.
pub(super) fn table(curves: &[Curve]) -> String {
    let mut out = format!(
        "{:34} {:>8} {:>12} {:>9} {:>8} {:>12}\n",
        "traffic", "length", "no gap, ms", "best gap", "effect", "largest gap"
    );
    for curve in curves {
        let columns = curve.case.columns();
        let traffic = columns.split(',').next().unwrap_or_default();
        let name = match curve.is_ring() {
            true if curve.is_hypothetical_ring() => format!("hypothetical ring {}", curve.case.shape),
            true => format!("ring {} {} NICs", curve.case.shape, curve.case.nic_count),
            false if curve.is_nsim() => format!("NSIM {traffic}"),
            false if curve.is_ablation() => columns.split(',').take(2).collect::<Vec<_>>().join(", "),
            false if curve.is_apart() => {
                format!("{traffic}, {}", spread(curve.case.start_spread_ns))
            }
            false => traffic.to_string(),
        };
        let ((gap, best), (_, last)) = (curve.best(), curve.last());
        let _ = writeln!(
            out,
            "{name:34} {:>8} {:>12.3} {gap:>9} {best:>8.3} {last:>12.2}",
            length(curve.case.bytes),
            curve.unpaced_ps as f64 / 1e9
        );
    }
    out
}

/// Panels of the main ring: a number of nodes each.
pub(super) fn ring_panels(curves: &[Curve]) -> Vec<Panel> {
    group(curves.iter().filter(|curve| curve.is_main_ring()), |curve| format!("{} nodes", curve.nodes()))
}

/// Panels of the main all-to-all: a rank order each, in the paper's order.
pub(super) fn exchange_panels(curves: &[Curve]) -> Vec<Panel> {
    order_panels(curves.iter().filter(|curve| curve.is_main_exchange()))
}

/// The same with one-sided writes by ranks that begin apart, at the spread that was run with all lengths.
pub(super) fn apart_panels(curves: &[Curve]) -> Vec<Panel> {
    let is_shown = |curve: &&Curve| {
        curve.is_one_sided() && curve.case.start_spread_ns == super::cases::SPREAD_OF_ALL_LENGTHS_NS
    };
    order_panels(curves.iter().filter(is_shown))
}

/// Panels of the hypothetical machine's ring.
pub(super) fn hypothetical_panels(curves: &[Curve]) -> Vec<Panel> {
    group(curves.iter().filter(|curve| curve.is_hypothetical_ring()), |curve| {
        format!("{} nodes", curve.nodes())
    })
}

/// Panels of the main ring, of the longest messages for which both were run: one gap for all, and a gap by
/// hop count.
pub(super) fn hop_panels(curves: &[Curve]) -> Vec<Panel> {
    let mut panels: Vec<(u32, Panel)> = Vec::new();
    for curve in curves.iter().filter(|curve| curve.is_main_ring()) {
        let of_hops = |tried: &&(Pacing, f64, f64)| matches!(tried.0, Pacing::PerHop(_));
        let mut by_hops: Vec<(f64, f64)> = vec![(0.0, 1.0)];
        by_hops.extend(curve.beyond.iter().filter(of_hops).map(|tried| (tried.1, tried.2)));
        if by_hops.len() == 1 {
            continue;
        }
        by_hops.sort_by(|a, b| a.0.total_cmp(&b.0));
        let lines = vec![
            Line { name: "one gap".into(), points: curve.points.clone() },
            Line { name: "gap by hop count (mean)".into(), points: by_hops },
        ];
        let panel = (format!("{} nodes, {}", curve.nodes(), length(curve.case.bytes)), lines);
        // Lengths come in order: the last stays.
        match panels.iter_mut().find(|(nodes, _)| *nodes == curve.nodes()) {
            Some((_, known)) => *known = panel,
            None => panels.push((curve.nodes(), panel)),
        }
    }
    panels.into_iter().map(|(_, panel)| panel).collect()
}

fn order_panels<'a>(curves: impl Iterator<Item = &'a Curve>) -> Vec<Panel> {
    let mut panels = group(curves, |curve| curve.case.order_name());
    panels.sort_by_key(|panel| ORDERS.iter().position(|&order| order_name(order) == panel.0));
    panels
}

fn group<'a>(curves: impl Iterator<Item = &'a Curve>, name: impl Fn(&Curve) -> String) -> Vec<Panel> {
    let mut panels: Vec<Panel> = Vec::new();
    for curve in curves {
        let name = name(curve);
        match panels.iter_mut().find(|panel| panel.0 == name) {
            Some(panel) => panel.1.push(Line::of(curve)),
            None => panels.push((name, vec![Line::of(curve)])),
        }
    }
    panels
}
