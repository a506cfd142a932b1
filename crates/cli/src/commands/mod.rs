//! The subcommands: one file (or folder) each.

pub(crate) mod info;
pub(crate) mod run;
