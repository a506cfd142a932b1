//! Integration tests of the fabric: one binary. Long ones are ignored:
//! `cargo test --release -p ayatori-fabric -- --ignored`.

mod balance;
mod from;
mod large;
mod random_graphs;
mod repairs;
