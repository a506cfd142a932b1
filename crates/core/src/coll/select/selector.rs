//! The choices of one communicator, worked out once.

use super::{Algorithm, Choice, Collective, Fabric, Question, choose_by_name, cost, serves, thresholds};
use crate::error::Error;
use alloc::vec::Vec;

/// Chooses for one communicator: by a table of thresholds that is made when an operation is first asked for,
/// since an estimate takes longer than a short message; and by settings that override it.
///
/// All processes must have the same fabric and settings.
#[derive(Clone, Debug)]
pub struct Selector {
    size: u32,
    fabric: Fabric,
    /// Per operation, commutative or not: least lengths and their algorithms. Empty: not computed yet.
    tables: [[Vec<(usize, Algorithm)>; 2]; Collective::ALL.len()],
    forced: [Option<Algorithm>; Collective::ALL.len()],
}

impl Selector {
    /// For a communicator of `size` processes on `fabric`.
    pub fn new(size: u32, fabric: Fabric) -> Self {
        Self { size, fabric, tables: Default::default(), forced: Default::default() }
    }

    /// Takes the algorithm of this name wherever it serves; elsewhere the choice stays.
    ///
    /// # Errors
    /// [`Error::Argument`] if the operation has no such algorithm.
    pub fn force(&mut self, collective: Collective, name: &str) -> Result<(), Error> {
        let algorithm = Algorithm::by_name(name).filter(|a| collective.algorithms().contains(a));
        if algorithm.is_none() {
            return Err(Error::Argument("the collective operation has no algorithm of this name"));
        }
        self.forced[collective as usize] = algorithm;
        Ok(())
    }

    /// The answer of [`choose`](super::choose), unless [forced](Self::force).
    ///
    /// `bytes` as in [`Question`]; where processes do not know each other's lengths (alltoallv, alltoallw)
    /// any length may be given, for the algorithms of these work together.
    pub fn choose(&mut self, collective: Collective, bytes: usize, commutative: bool) -> Choice {
        let question = Question { collective, bytes, size: self.size, commutative };
        let forced = self.forced[collective as usize].filter(|&algorithm| serves(&question, algorithm));
        let algorithm = forced.unwrap_or_else(|| {
            let table = &mut self.tables[collective as usize][usize::from(commutative)];
            if table.is_empty() {
                *table = thresholds(&question, &self.fabric);
            }
            let above = table.iter().position(|&(from, _)| from > bytes).unwrap_or(table.len());
            // The first threshold is 0.
            table[above - 1].1
        });
        let segment_bytes = match algorithm {
            Algorithm::Chain => cost::segment_bytes(&question, &self.fabric),
            _ => bytes.max(1),
        };
        Choice { algorithm, segment_bytes }
    }

    /// The choice in words, and what forces it.
    pub fn explain(&self, collective: Collective, bytes: usize, commutative: bool) -> alloc::string::String {
        let question = Question { collective, bytes, size: self.size, commutative };
        let mut text = super::explain(&question, &self.fabric);
        if let Some(algorithm) = self.forced[collective as usize] {
            let takes = choose_by_name(&question, algorithm.name(), &self.fabric).is_some();
            let verdict = if takes { "taken by a setting" } else { "set, but it does not serve here" };
            text += &alloc::format!("{}: {verdict}\n", algorithm.name());
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coll::select::choose;

    #[test]
    fn the_table_answers_as_the_estimates_do() {
        let mut chains_count = 0;
        for size in [1, 2, 5, 8, 32] {
            for processors in [None, Some(2), Some(0)] {
                let fabric = Fabric { processors, ..Fabric::default() };
                let mut selector = Selector::new(size, fabric);
                for collective in Collective::ALL {
                    for bytes in (0..30).flat_map(|k| [(1 << k) - 1, 1 << k, 3 << k]) {
                        for commutative in [false, true] {
                            let question = Question { collective, bytes, size, commutative };
                            let (table, estimate) =
                                (selector.choose(collective, bytes, commutative), choose(&question, &fabric));
                            assert_eq!(table.algorithm, estimate.algorithm, "{question:?}");
                            assert!(table.segment_bytes > 0, "{question:?}");
                            if table.algorithm == Algorithm::Chain {
                                assert_eq!(table.segment_bytes, estimate.segment_bytes, "{question:?}");
                                chains_count += 1;
                            }
                        }
                    }
                }
            }
        }
        assert!(chains_count > 0);
    }

    #[test]
    fn a_setting_holds_where_it_serves() {
        let mut selector = Selector::new(6, Fabric::default());
        selector.force(Collective::Allreduce, "ring").unwrap();
        assert_eq!(selector.choose(Collective::Allreduce, 8, true).algorithm, Algorithm::Ring);
        assert_ne!(selector.choose(Collective::Allreduce, 8, false).algorithm, Algorithm::Ring);
        assert!(selector.explain(Collective::Allreduce, 8, true).contains("ring: taken by a setting"));
        assert!(selector.explain(Collective::Allreduce, 8, false).contains("does not serve here"));
        assert!(selector.force(Collective::Allreduce, "bruck").is_err());
        assert!(selector.force(Collective::Allreduce, "magic").is_err());
    }
}
