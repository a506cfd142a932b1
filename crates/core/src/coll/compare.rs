//! Check mode: the members' claims about a collective operation, and the conclusion from them.
//! `collective/check.rs` exchanges the claims.

use super::{Collective, Context, Label, Schedule};
use crate::buffer::{Buffer, Scratch};
use crate::error::{Difference, Error};
use crate::ids::Rank;
use alloc::vec::Vec;

/// Amount and types of data.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Amount {
    /// Bytes of the packed stream.
    pub bytes: u64,
    /// [`Signature::digest`](crate::layout::Signature::digest); 0 where any types will do.
    pub types: u64,
}

/// A process' claim about a collective operation that it begins.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Which operation.
    pub collective: Collective,
    /// Its root, of those that have one.
    pub root: Option<Rank>,
    /// Which reduction, by a number that means the same at all processes; 0 where there is none.
    pub reduction: u32,
    /// The data that all members give alike: a broadcast's buffer, a block, an operand.
    pub common: Option<Amount>,
    /// The data that this process alone gives or gets, which others expect of it.
    pub own: Option<Amount>,
    /// Amount that this process expects of each member. Empty: nothing.
    pub expected: Vec<Amount>,
    /// Amount that it sends to each member, in an alltoall of blocks of any length.
    pub sends: Vec<Amount>,
}

impl Claim {
    /// A claim about an operation without data.
    pub fn new(collective: Collective, root: Option<Rank>) -> Self {
        let (expected, sends) = (Vec::new(), Vec::new());
        Self { collective, root, reduction: 0, common: None, own: None, expected, sends }
    }
}

/// A difference found: the fields of [`Error::Unlike`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Finding {
    what: Difference,
    rank: Rank,
    theirs: u64,
    others: u64,
}

impl From<Finding> for Error {
    fn from(Finding { what, rank, theirs, others }: Finding) -> Self {
        Self::Unlike { what, rank, theirs, others }
    }
}

/// Bytes of a claim on its way: collective, what there is of the rest, a gap, root, reduction, a gap, two
/// amounts.
const CLAIM_BYTES: usize = 4 + 4 + 4 + 4 + 2 * AMOUNT_BYTES;
const AMOUNT_BYTES: usize = 16;
/// Bytes of what a member has found: which difference (or none), rank, both values.
const FINDING_BYTES: usize = 4 + 4 + 8 + 8;
/// Flags in a claim's second byte.
const HAS_ROOT: u8 = 1;
const HAS_COMMON: u8 = 2;
const HAS_OWN: u8 = 4;
const HAS_FAILED: u8 = 8;

/// A collective operation whose members compare their claims.
pub(crate) struct Comparing {
    pub(crate) stage: Stage,
    claim: Claim,
    /// The difference that this process found, before the members exchange findings.
    found: Option<Finding>,
    /// Memory of the stage's messages.
    pub(crate) memory: Scratch,
    /// The operation itself, or why there is none.
    pub(crate) next: Result<Schedule, Error>,
    pub(crate) at: Context,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// The members give each other their claims.
    Claims,
    /// Each member sends each other one the amount that it will send to it.
    Sends,
    /// The members that alone know their expectations report their findings.
    Findings,
}

impl Comparing {
    /// One that begins.
    pub(crate) fn new(claim: Claim, next: Result<Schedule, Error>, at: Context) -> Self {
        Self { stage: Stage::Claims, claim, found: None, memory: Scratch::new(0), next, at }
    }

    /// The operation being compared.
    pub(crate) fn label(&self) -> Option<Label> {
        self.next.as_ref().ok()?.label()
    }

    fn emit_claim(&self, bytes: &mut [u8]) {
        let Claim { collective, root, reduction, common, own, .. } = &self.claim;
        let has = |flag: u8, is_there: bool| if is_there { flag } else { 0 };
        bytes.fill(0);
        bytes[0] = Collective::ALL.iter().position(|other| other == collective).unwrap_or_default() as u8;
        bytes[1] = has(HAS_ROOT, root.is_some())
            | has(HAS_COMMON, common.is_some())
            | has(HAS_OWN, own.is_some())
            | has(HAS_FAILED, self.next.is_err());
        bytes[4..8].copy_from_slice(&root.unwrap_or_default().to_le_bytes());
        bytes[8..12].copy_from_slice(&reduction.to_le_bytes());
        common.unwrap_or_default().emit(&mut bytes[16..16 + AMOUNT_BYTES]);
        own.unwrap_or_default().emit(&mut bytes[16 + AMOUNT_BYTES..]);
    }

    /// The conclusion from all claims, the same at all members.
    fn compare_claims(&self, all: &[u8]) -> Option<Finding> {
        let claims = || all.chunks_exact(CLAIM_BYTES).map(Said::parse);
        let first = claims().next()?;
        let find = |what, rank, theirs, others| Some(Finding { what, rank, theirs, others });
        let mut common = None;
        for (rank, said) in (0..).zip(claims()) {
            if said.collective != first.collective {
                return find(Difference::Call, rank, said.collective.into(), first.collective.into());
            }
            if said.root != first.root {
                let number = |root: Option<Rank>| root.map_or(u64::MAX, u64::from);
                return find(Difference::Root, rank, number(said.root), number(first.root));
            }
            if said.reduction != first.reduction {
                return find(Difference::Reduction, rank, said.reduction.into(), first.reduction.into());
            }
            if let Some(amount) = said.common {
                let others = *common.get_or_insert(amount);
                let names = (Difference::Bytes, Difference::Types);
                if let Some(finding) = amount.compare(others, rank, names) {
                    return Some(finding);
                }
                if others.types == 0 {
                    common = Some(amount);
                }
            }
        }
        let failed = (0..).zip(claims()).find(|(_, said)| said.has_failed)?;
        find(Difference::Failed, failed.0, 0, 0)
    }

    /// The stage that follows the claims of all, if one does.
    fn hear_claims(&mut self, all: &[u8]) -> Result<Option<Stage>, Error> {
        if let Some(found) = self.compare_claims(all) {
            return Err(found.into());
        }
        if !has_expectations(self.claim.collective) {
            return Ok(None);
        }
        if self.claim.collective == Collective::Alltoallv {
            return Ok(Some(Stage::Sends));
        }
        let given = all.chunks_exact(CLAIM_BYTES).map(|bytes| Said::parse(bytes).own);
        self.found = self.compare_expected(given);
        Ok(Some(Stage::Findings))
    }

    /// Compares each member's own amount with the one that this process expects of it.
    fn compare_expected(&self, given: impl Iterator<Item = Option<Amount>>) -> Option<Finding> {
        let names = (Difference::ExpectedBytes, Difference::ExpectedTypes);
        let pairs = (0..).zip(given.zip(&self.claim.expected));
        pairs.filter_map(|(rank, (given, expected))| given?.compare(*expected, rank, names)).next()
    }

    /// The length of what each member gives in this stage, in bytes.
    pub(crate) fn part_bytes(&self) -> usize {
        match self.stage {
            Stage::Claims => CLAIM_BYTES,
            Stage::Sends => AMOUNT_BYTES,
            Stage::Findings => FINDING_BYTES,
        }
    }

    /// The data of all members in this stage, in rank order. Ends the stage.
    pub(crate) fn given(&mut self) -> Buffer {
        let len = self.part_bytes() * self.at.size as usize;
        self.memory.buffer(len)
    }

    /// Writes this process' message to each other member in this stage.
    pub(crate) fn emit(&self, bytes: &mut [u8]) {
        match self.stage {
            Stage::Claims => self.emit_claim(bytes),
            Stage::Findings => Finding::emit(self.found, bytes),
            Stage::Sends => {
                let sends = bytes.chunks_exact_mut(AMOUNT_BYTES).zip(&self.claim.sends);
                sends.for_each(|(bytes, amount)| amount.emit(bytes));
            }
        }
    }

    /// Takes the data of all members in this stage. Returns the next stage, `None` if the operation may run,
    /// or the difference found as an error.
    pub(crate) fn hear(&mut self, all: &[u8]) -> Result<Option<Stage>, Error> {
        match self.stage {
            Stage::Claims => self.hear_claims(all),
            Stage::Sends => {
                self.found = self
                    .compare_expected(all.chunks_exact(AMOUNT_BYTES).map(|bytes| Some(Amount::parse(bytes))));
                Ok(Some(Stage::Findings))
            }
            Stage::Findings => all
                .chunks_exact(FINDING_BYTES)
                .find_map(Finding::parse)
                .map_or(Ok(None), |found| Err(found.into())),
        }
    }
}

/// A claim that has come.
struct Said {
    collective: u8,
    root: Option<Rank>,
    reduction: u32,
    common: Option<Amount>,
    own: Option<Amount>,
    has_failed: bool,
}

impl Said {
    fn parse(bytes: &[u8]) -> Self {
        let has = |flag| bytes[1] & flag != 0;
        let amount = |at: usize, flag| has(flag).then(|| Amount::parse(&bytes[at..at + AMOUNT_BYTES]));
        Self {
            collective: bytes[0],
            root: has(HAS_ROOT).then(|| number32(bytes, 4)),
            reduction: number32(bytes, 8),
            common: amount(16, HAS_COMMON),
            own: amount(16 + AMOUNT_BYTES, HAS_OWN),
            has_failed: has(HAS_FAILED),
        }
    }
}

impl Amount {
    fn emit(self, bytes: &mut [u8]) {
        bytes[..8].copy_from_slice(&self.bytes.to_le_bytes());
        bytes[8..].copy_from_slice(&self.types.to_le_bytes());
    }

    fn parse(bytes: &[u8]) -> Self {
        Self { bytes: number64(bytes, 0), types: number64(bytes, 8) }
    }

    /// In what the amount of `rank` differs from that of others.
    fn compare(self, others: Self, rank: Rank, (bytes, types): (Difference, Difference)) -> Option<Finding> {
        let what = if self.bytes != others.bytes {
            bytes
        } else if self.types != others.types && self.types != 0 && others.types != 0 && self.bytes != 0 {
            types
        } else {
            return None;
        };
        Some(Finding { what, rank, theirs: self.bytes, others: others.bytes })
    }
}

impl Finding {
    fn emit(found: Option<Self>, bytes: &mut [u8]) {
        bytes.fill(0);
        let Some(Self { what, rank, theirs, others }) = found else { return };
        bytes[0] = 1 + what as u8;
        bytes[4..8].copy_from_slice(&rank.to_le_bytes());
        bytes[8..16].copy_from_slice(&theirs.to_le_bytes());
        bytes[16..24].copy_from_slice(&others.to_le_bytes());
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let what = *Difference::ALL.get(usize::from(bytes[0]).checked_sub(1)?)?;
        let (rank, theirs, others) = (number32(bytes, 4), number64(bytes, 8), number64(bytes, 16));
        Some(Self { what, rank, theirs, others })
    }
}

fn number32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn number64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// Whether only some members know what they expect of others: then all must learn the findings.
fn has_expectations(collective: Collective) -> bool {
    use Collective::{Allgatherv, Alltoallv, Gatherv, Scatterv};
    matches!(collective, Gatherv | Scatterv | Allgatherv | Alltoallv)
}
