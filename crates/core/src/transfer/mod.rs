//! The transfer machine: one way for all long data.
//!
//! What is here: [`Source`] and [`Sink`], the two ends of a message's data.

mod ends;

pub use ends::{Sink, Source};
