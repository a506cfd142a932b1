#[path = "../../../../crates/cli/src/why/report.rs"]
pub(crate) mod report;
