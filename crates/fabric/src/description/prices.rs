//! A price list: what a cluster can be built of, for `ayatori plan design`. docs/design.md is its reference.

use super::assembly::models;
use super::error::{DescriptionError, Source};
use super::hosts::HostModel;
use super::models::SwitchModel;
use super::reader::{self, Result, Section};

/// Parts with prices, and the racks they stand in.
#[derive(Debug, Clone)]
pub struct Prices {
    /// Currency of prices: `$`.
    pub currency: String,
    /// Models of switches, each with a price.
    pub switch_models: Vec<SwitchModel>,
    /// The hosts.
    pub host_model: HostModel,
    /// Cables, the shortest first.
    pub cables: Vec<CablePrice>,
    /// Where racks stand.
    pub racks: Racks,
    /// The sections of the models, to be copied into a machine file.
    pub models: toml::Table,
}

/// A length of cable.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CablePrice {
    /// Metres.
    pub length_m: f64,
    /// Price of one.
    pub price: f64,
}

/// Racks in rows, hosts in the order of their numbers, each switch beside the middle one of its hosts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Racks {
    /// Hosts in a rack.
    pub hosts_per_rack: u32,
    /// Racks in a row.
    pub racks_per_row: u32,
    /// From the middle of a rack to that of the next one in its row, m.
    pub rack_pitch_m: f64,
    /// From a row to the next, m.
    pub row_pitch_m: f64,
    /// Length of every cable inside the racks at its ends, m.
    pub in_rack_m: f64,
}

impl Prices {
    /// Reads a price list; `file` is its name for errors.
    ///
    /// # Errors
    /// The first thing that is wrong with it, with its line and what to do.
    pub fn parse(file: &str, text: &str) -> std::result::Result<Prices, DescriptionError> {
        let source = Source { file: file.into(), text: text.into() };
        let table = reader::parse(&source)?;
        let mut prices = read(Section::root(&source, table.get_ref()))?;
        // It was TOML just now.
        let mut all: toml::Table = text.parse().unwrap_or_default();
        for key in ["switch_models", "host_models"] {
            prices.models.extend(all.remove(key).map(|section| (key.to_owned(), section)));
        }
        Ok(prices)
    }

    /// The shortest cable that is long enough.
    pub fn cable(&self, needed_m: f64) -> Option<CablePrice> {
        self.cables.iter().copied().find(|cable| cable.length_m >= needed_m)
    }
}

fn read(root: Section<'_>) -> Result<Prices> {
    let currency = root.text("currency")?.map_or_else(|| "$".into(), |text| text.value);
    let (switch_models, host_models) = models(&root)?;
    if switch_models.is_empty() {
        let remedy = "add [switch_models.NAME] as in a machine file, with a `price`";
        return Err(root.error("switch_models", "there is no switch to buy", remedy));
    }
    for model in &switch_models {
        let error = |problem: &str, remedy: &str| {
            root.error("switch_models", format!("{} {problem}", model.name), remedy)
        };
        if model.price.is_none() {
            return Err(error("has no price", "add `price = 2000`: what one switch costs"));
        }
        if model.router.is_some() {
            return Err(error("has a router", "only switches with VLANs are planned: remove it"));
        }
    }
    let mut hosts = host_models.into_iter();
    let (Some(host_model), None) = (hosts.next(), hosts.next()) else {
        let remedy = "describe one [host_models.NAME]: all hosts are alike";
        return Err(root.error("host_models", "there must be one model of hosts", remedy));
    };
    let cables: Result<Vec<CablePrice>> = root.sections("cable")?.into_iter().map(cable).collect();
    let mut cables = cables?;
    cables.sort_by(|a, b| a.length_m.total_cmp(&b.length_m));
    if cables.is_empty() {
        let remedy = "add [[cable]] with `length_m` and `price`, one for each length";
        return Err(root.error("cable", "there is no cable to buy", remedy));
    }
    if let Some(pair) = cables.windows(2).find(|pair| pair[0].length_m == pair[1].length_m) {
        let problem = format!("there are two prices for cables of {} m", pair[0].length_m);
        return Err(root.error("cable", problem, "keep one of them"));
    }
    let racks = root.section("racks")?.map(racks).transpose()?.unwrap_or(ONE_ROW);
    root.finish()?;
    Ok(Prices { currency, switch_models, host_model, cables, racks, models: toml::Table::new() })
}

/// 19-inch racks with hosts of one unit, side by side.
const ONE_ROW: Racks =
    Racks { hosts_per_rack: 32, racks_per_row: 16, rack_pitch_m: 0.6, row_pitch_m: 2.4, in_rack_m: 2.0 };

fn cable(s: Section<'_>) -> Result<CablePrice> {
    let required = |key: &'static str, min: f64, max: f64| {
        let missing = || s.error_here(format!("has no `{key}`"), "give both `length_m` and `price`");
        s.number(key, min, max)?.ok_or_else(missing)
    };
    let cable =
        CablePrice { length_m: required("length_m", 0.01, 1e5)?, price: required("price", 0.0, 1e12)? };
    s.finish()?;
    Ok(cable)
}

fn racks(s: Section<'_>) -> Result<Racks> {
    let racks = Racks {
        hosts_per_rack: s.count("hosts_per_rack", 1..=1000)?.map_or(ONE_ROW.hosts_per_rack, |n| n as u32),
        racks_per_row: s.count("racks_per_row", 1..=1000)?.map_or(ONE_ROW.racks_per_row, |n| n as u32),
        rack_pitch_m: s.number("rack_pitch_m", 0.0, 100.0)?.unwrap_or(ONE_ROW.rack_pitch_m),
        row_pitch_m: s.number("row_pitch_m", 0.0, 100.0)?.unwrap_or(ONE_ROW.row_pitch_m),
        in_rack_m: s.number("in_rack_m", 0.0, 100.0)?.unwrap_or(ONE_ROW.in_rack_m),
    };
    s.finish()?;
    Ok(racks)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "[switch_models.a]\nports = 8\nrate_gbps = 1\nprice = 2000\n[host_models.h]\n\
        nic = [{ name = \"eth0\", rate_gbps = 1 }]\n[[cable]]\nlength_m = 20\nprice = 4\n\
        [[cable]]\nlength_m = 3\nprice = 9\n";

    #[test]
    fn cables_are_bought_by_their_length() {
        let prices = Prices::parse("p.toml", LIST).unwrap();
        assert_eq!((prices.currency.as_str(), prices.racks), ("$", ONE_ROW));
        let bought = |needed_m| prices.cable(needed_m).map(|cable| (cable.length_m, cable.price));
        assert_eq!(
            [0.0, 3.0, 3.1, 20.0].map(bought),
            [(3.0, 9.0), (3.0, 9.0), (20.0, 4.0), (20.0, 4.0)].map(Some)
        );
        assert_eq!(bought(20.1), None);
        let racks = "[racks]\nhosts_per_rack = 8\nracks_per_row = 3\nrack_pitch_m = 1\nrow_pitch_m = 4\n\
                     in_rack_m = 0\n";
        let prices = Prices::parse("p.toml", &format!("currency = \"EUR\"\n{LIST}{racks}")).unwrap();
        let expected = Racks {
            hosts_per_rack: 8,
            racks_per_row: 3,
            rack_pitch_m: 1.0,
            row_pitch_m: 4.0,
            in_rack_m: 0.0,
        };
        assert_eq!((prices.currency.as_str(), prices.racks), ("EUR", expected));
    }

    #[test]
    fn what_a_price_list_lacks_is_named() {
        let (switch, rest) = LIST.split_at(LIST.find("[host_models.h]").unwrap());
        let (host, cables) = rest.split_at(rest.find("[[cable]]").unwrap());
        let router = "router = { virtual_channels = 2, virtual_channel_buffer_bytes = 4096, flit_bytes = 16, \
                      packet_max_bytes = 2048, packet_min_bytes = 32 }\n";
        for (text, expected) in [
            (rest.to_owned(), "there is no switch to buy"),
            (LIST.replacen("price = 2000\n", "", 1), "a has no price"),
            (LIST.replacen("price = 2000\n", &format!("price = 2000\n{router}"), 1), "a has a router"),
            ([switch, cables].concat(), "there must be one model of hosts"),
            (
                [switch, host, &host.replace("models.h", "models.i"), cables].concat(),
                "there must be one model of hosts",
            ),
            ([switch, host].concat(), "there is no cable to buy"),
            (LIST.replace("length_m = 20", "length_m = 3"), "there are two prices for cables of 3 m"),
            (LIST.replace("length_m = 20\n", ""), "has no `length_m`"),
            (LIST.replace("price = 9\n", ""), "has no `price`"),
            (format!("strange = 1\n{LIST}"), "strange"),
            (format!("{LIST}strange = 1\n"), "strange"),
            (format!("{LIST}[racks]\nstrange = 1\n"), "strange"),
            (format!("{LIST}[racks]\nhosts_per_rack = 0\n"), "hosts_per_rack"),
            (format!("{LIST}[racks]\nhosts_per_rack = 1001\n"), "hosts_per_rack"),
            (format!("{LIST}[racks]\nracks_per_row = 0\n"), "racks_per_row"),
            (format!("{LIST}[racks]\nracks_per_row = 1001\n"), "racks_per_row"),
        ] {
            let error = Prices::parse("p.toml", &text).expect_err(expected).to_string();
            assert!(error.contains(expected), "{expected}: {error}");
        }
    }
}
