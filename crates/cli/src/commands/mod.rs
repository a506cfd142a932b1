//! The subcommands: one file (or folder) each.

pub(crate) mod calibrate;
pub(crate) mod completions;
pub(crate) mod doctor;
pub(crate) mod info;
pub(crate) mod lab;
pub(crate) mod plan;
pub(crate) mod run;
pub(crate) mod sim;
mod sim_bench;
pub(crate) mod sim_fuzz;
mod sim_progress;
mod sim_start;
mod sim_sweep;
pub(crate) mod study;
pub(crate) mod why;
