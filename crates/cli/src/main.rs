//! The `ayatori` command.

fn main() {}
