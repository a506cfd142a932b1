//! Experiments of papers, run again: what to run, what the paper found, and a report that compares.
//!
//! **Owns** one module a paper: the grid of cases, the experiment that runs one, the store of finished
//! runs, the findings with their computed verdicts, the page and its figures. [`sweep`] runs many
//! simulations on all cores, [`grid`] those of a sweep's file, also by several processes together.
//!
//! **Does not own** the planner (`ayatori-fabric`) and the simulator (`ayatori-sim`), which it only calls. It
//! prints nothing and draws no progress bar: the command does. Where a machine file has a parameter fitted to
//! a figure of its paper, the report says which, and to what.
//!
//! **Data flow.** Cases → runs → results.csv → curves → findings → report.md and figures ([`pacing`]);
//! topologies → plans → a table beside the paper's ([`vlan`]); machine files → runs → a [`report::Report`]
//! ([`trunking`], [`cenju3`], [`comet`]), and of all a page ([`all`]).
//!
//! **Begin** at [`vlan::run`], which is short, then `pacing/mod.rs` and `pacing/experiment.rs`.
//!
//! ```no_run
//! let report = ayatori_study::vlan::run(None)?;
//! assert!(report.agrees(), "{}", report.text());
//! # anyhow::Ok(())
//! ```
#![forbid(unsafe_code)]

pub mod all;
mod bench;
pub mod calibrate;
pub mod cenju3;
mod chart;
pub mod comet;
pub mod grid;
mod memory;
pub mod pacing;
mod page;
pub mod report;
mod share;
pub mod sweep;
pub mod trunking;
pub mod vlan;
