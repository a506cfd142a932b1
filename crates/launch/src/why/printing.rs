//! The launcher's output on SIGUSR1.

use crate::why::graph::Graph;
use crate::why::report::{self, HostReport};
use crate::why::show::{self, Heading};

/// The state of ranks, by two looks if they seem to be stuck.
#[derive(Debug, Default)]
pub(crate) struct Printing {
    first: Option<Vec<HostReport>>,
}

impl Printing {
    /// All hosts were looked at. `Some`: the text to print; `None`: look once more.
    pub(crate) fn on_reports(&mut self, reports: Vec<HostReport>, heading: &Heading) -> Option<String> {
        let reports = match self.first.take() {
            Some(first) => report::merge(&first, reports),
            None => {
                let is_stuck = {
                    let ranks = report::ranks(&reports, heading.ranks_count);
                    !Graph::new(&ranks).verdict().stuck.is_empty()
                };
                if is_stuck {
                    self.first = Some(reports);
                    return None;
                }
                reports
            }
        };
        let ranks = report::ranks(&reports, heading.ranks_count);
        Some(show::text(heading, &reports, &ranks, false).0)
    }
}
