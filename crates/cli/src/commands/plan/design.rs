//! `ayatori plan design`: the cheapest networks for so many hosts, from a price list.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use ayatori_fabric::description::Prices;
use ayatori_fabric::design::{CableItem, Design, Designs, MACHINES_MAX, Wanted, designs};
use ayatori_sim::simulation::{Options, Simulation, Workload, parse_bytes};
use serde_json::{Value, json};

use crate::exit::{Coded, Exit};

use super::report::print;

/// What `ayatori plan design` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Looks at one switch, star, ring, mesh, torus, hypercube, complete graph, HyperX, fat tree and dragonfly,
with up to 256 of each switch model, and as many cables a link as the bisection takes. docs/design.md
explains the price list.

Example:
  ayatori plan design --hosts 225 --bisection 8G --prices examples/prices-2009.toml --out designs")]
pub(crate) struct Args {
    /// Hosts that the network is for
    #[arg(long, value_name = "N")]
    hosts: u32,
    /// Least bandwidth between two halves of the machine, each way, bit/s: 8G, 400M
    #[arg(long, value_name = "RATE")]
    bisection: String,
    /// The price list
    #[arg(long, value_name = "FILE")]
    prices: PathBuf,
    /// How many designs
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=50))]
    count: u32,
    /// Block that every two hosts exchange in the simulated all-to-all; 0: do not simulate
    #[arg(long, value_name = "BYTES", default_value = "4K")]
    bytes: String,
    /// Write each design's machine file and list of cables into this folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Hosts up to which the all-to-all is simulated: it takes their square in messages.
const SIMULATED_HOSTS_MAX: u32 = 512;
/// Networks left out that are listed before the rest is only counted.
const LEFT_OUT_LISTED_MAX: usize = 5;

/// Finds, simulates, prints and writes the designs.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let wanted = Wanted {
        host_count: args.hosts,
        bisection_bits_per_s: parse_rate(&args.bisection)?,
        design_count: args.count as usize,
    };
    let block_bytes = parse_bytes(&args.bytes).map_err(|error| Coded::usage(format!("--bytes: {error}")))?;
    let file = args.prices.display().to_string();
    let text = std::fs::read_to_string(&args.prices).with_context(|| format!("cannot read {file}"))?;
    let prices = Prices::parse(&file, &text)?;
    let found = designs(&prices, &wanted)?;
    let times: Vec<Result<f64, String>> =
        found.designs.iter().map(|design| all_to_all_s(design, args.hosts, block_bytes as u64)).collect();
    if args.json {
        print(&format!("{:#}\n", json(&prices, &found, &times)))?;
    } else {
        print(&table(args, &prices, &found, &times))?;
    }
    if let Some(folder) = &args.out {
        write_files(folder, &found.designs)?;
    }
    Ok(Exit::Success)
}

/// A rate such as `8G`, bit/s.
fn parse_rate(text: &str) -> anyhow::Result<u64> {
    let wrong = || {
        Coded::usage(format!(
            "--bisection {text}: a rate in bit/s with K, M, G or T behind it, such as 8G or 400M"
        ))
    };
    let (number, factor) = match text.chars().last() {
        Some('K' | 'k') => (&text[..text.len() - 1], 1e3),
        Some('M' | 'm') => (&text[..text.len() - 1], 1e6),
        Some('G' | 'g') => (&text[..text.len() - 1], 1e9),
        Some('T' | 't') => (&text[..text.len() - 1], 1e12),
        _ => (text, 1.0),
    };
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let rate = number * factor;
    if (0.0..=1e18).contains(&rate) { Ok(rate.round() as u64) } else { Err(wrong()) }
}

/// Seconds of an all-to-all among all hosts on the design's plan, or why it was not simulated.
fn all_to_all_s(design: &Design, host_count: u32, block_bytes: u64) -> Result<f64, String> {
    if block_bytes == 0 {
        return Err("not asked for".into());
    }
    if host_count > SIMULATED_HOSTS_MAX {
        return Err(format!("not simulated: more than {SIMULATED_HOSTS_MAX} hosts"));
    }
    let options = Options { bytes: block_bytes, ..Options::default() };
    let workload = Workload::named("alltoall").map_err(|error| error.to_string())?;
    let mut simulation = Simulation::planned(&design.name, &design.machine, &design.plan, workload, options)
        .map_err(|error| error.to_string())?;
    let outcome = simulation.run().map_err(|error| error.to_string())?;
    Ok(outcome.report.elapsed_ps as f64 / 1e12)
}

fn deadlock(design: &Design) -> &'static str {
    if design.plan.verdicts.deadlock.is_free() { "free" } else { "drops" }
}

fn table(args: &Args, prices: &Prices, found: &Designs, times: &[Result<f64, String>]) -> String {
    let mut text = String::new();
    let Designs { designs, left_out, shape_count, is_cut_short } = found;
    let currency = &prices.currency;
    // Writing into a string does not fail.
    let _ = writeln!(
        text,
        "{} hosts, {} bit/s of bisection: the cheapest {} of {shape_count} shapes; prices in \
         {currency}\n",
        args.hosts,
        args.bisection,
        designs.len()
    );
    let _ = writeln!(
        text,
        "   #      price   switches  cables  Gbit/s of bisection: cabling  routes  diameter  VLANs  \
         load/bound  deadlock  \
         all-to-all"
    );
    for (index, (design, time)) in designs.iter().zip(times).enumerate() {
        let figures = &design.plan.figures;
        let bound = figures.link_load_least;
        let ratio =
            if bound > 0.0 { format!("{:.2}", figures.link_load_max as f64 / bound) } else { "-".into() };
        let time = time.as_ref().map_or("-".to_owned(), |s| format!("{:.3} ms", s * 1e3));
        let routed = match design.plan.switches.len() {
            1 => design.bisection_bits_per_s,
            _ => figures.bisection_routed_bits_per_s,
        };
        let _ = writeln!(
            text,
            "  {:2} {:10.0} {:10.0} {:7.0}  {:>28.1} {:7.1}  {:8}  {:5}  {ratio:>10}  {:8}  {time:>10}",
            index + 1,
            design.price(),
            design.switches_price,
            design.cables_price,
            design.bisection_bits_per_s as f64 / 1e9,
            routed as f64 / 1e9,
            figures.diameter_switches,
            design.plan.vlans.len(),
            deadlock(design),
        );
        let _ = writeln!(text, "     {}", design.name);
    }
    let reasons: Vec<&String> = times.iter().filter_map(|time| time.as_ref().err()).collect();
    if let Some(reason) = reasons.first().filter(|_| args.bytes != "0") {
        let _ = writeln!(text, "\n  all-to-all: {reason}");
    }
    if !left_out.is_empty() {
        let _ = writeln!(text, "\n  Left out, though not dearer:");
        for out in left_out.iter().take(LEFT_OUT_LISTED_MAX) {
            let _ = writeln!(text, "    {}: {}", out.name, out.why);
        }
        if let Some(more @ 1..) = left_out.len().checked_sub(LEFT_OUT_LISTED_MAX) {
            let _ = writeln!(text, "    and {more} more (--json has them all)");
        }
    }
    if *is_cut_short {
        let _ = writeln!(
            text,
            "\n  The search ended after {MACHINES_MAX} networks: a cheaper one may not have been looked at."
        );
    }
    text
}

fn json(prices: &Prices, found: &Designs, times: &[Result<f64, String>]) -> Value {
    let cable = |cable: &CableItem| {
        json!({
            "label": cable.label(), "from": cable.from.0, "from_port": cable.from.1, "to": cable.to.0,
            "to_port": cable.to.1, "rate_bits_per_s": cable.rate_bits_per_s, "needed_m": cable.needed_m,
            "length_m": cable.length_m, "price": cable.price,
        })
    };
    let design = |(design, time): (&Design, &Result<f64, String>)| {
        json!({
            "name": design.name,
            "price": design.price(),
            "switches_price": design.switches_price,
            "cables_price": design.cables_price,
            "switches": design.plan.switches.len(),
            "bisection_bits_per_s": design.bisection_bits_per_s,
            "all_to_all_s": time.as_ref().ok(),
            "figures": design.plan.figures,
            "checks": design.plan.verdicts.checks,
            "machine_file": design.description,
            "cables": design.cables.iter().map(cable).collect::<Vec<_>>(),
        })
    };
    let left_out = |out: &ayatori_fabric::design::LeftOut| json!({"name": out.name, "why": out.why});
    json!({
        "currency": prices.currency,
        "shapes": found.shape_count,
        "is_cut_short": found.is_cut_short,
        "designs": found.designs.iter().zip(times).map(design).collect::<Vec<_>>(),
        "left_out": found.left_out.iter().map(left_out).collect::<Vec<_>>(),
    })
}

/// `1.toml` and `1.cables.csv`, and so on.
fn write_files(folder: &Path, designs: &[Design]) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("making the folder {}", folder.display()))?;
    let write = |name: String, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    for (index, design) in designs.iter().enumerate() {
        write(format!("{}.toml", index + 1), &design.description)?;
        write(format!("{}.cables.csv", index + 1), &cables_csv(&design.cables))?;
    }
    eprintln!("{} machine files and lists of cables in {}", designs.len(), folder.display());
    Ok(())
}

/// A field of a CSV file (RFC 4180): names of ports may have anything in them.
fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

fn cables_csv(cables: &[CableItem]) -> String {
    let mut text =
        String::from("number,from,from_port,to,to_port,gbit_per_s,needed_m,length_m,price,label\n");
    for cable in cables {
        let numbers = [cable.needed_m, cable.length_m, cable.price].map(|number| number.to_string());
        let gigabits = (cable.rate_bits_per_s as f64 / 1e9).to_string();
        let (number, label) = (cable.number.to_string(), cable.label());
        let [from, to] = [&cable.from, &cable.to];
        let fields: [&str; 10] = [
            &number,
            &from.0,
            &from.1,
            &to.0,
            &to.1,
            &gigabits,
            &numbers[0],
            &numbers[1],
            &numbers[2],
            &label,
        ];
        text += &fields.map(quoted).join(",");
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_a_cable_list_are_quoted_where_needed() {
        assert_eq!(["a:1", "1,2", "say \"x\""].map(quoted), ["a:1", "\"1,2\"", "\"say \"\"x\"\"\""]);
    }

    #[test]
    fn rates_have_a_letter_or_none() {
        for (text, rate) in
            [("8G", Some(8_000_000_000)), ("0.5m", Some(500_000)), ("7", Some(7)), ("0", Some(0))]
        {
            assert_eq!(parse_rate(text).ok(), rate, "{text}");
        }
        for text in ["", "G", "8 G", "-1G", "nan", "inf", "1e30", "8GB", "é"] {
            assert!(parse_rate(text).is_err(), "{text}");
        }
    }
}
