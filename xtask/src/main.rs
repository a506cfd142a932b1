//! Repository chores: `cargo xtask ci|tidy|conformance|bench`.

fn main() {}
