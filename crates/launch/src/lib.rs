//! Starting jobs (see ARCHITECTURE.md): what a launcher tells its ranks, PMI-1, and what is set up in a rank before its
//! program begins.

pub mod child;
pub mod environment;
pub mod pmi;
mod sys;
