//! The suite passes a device that keeps its promises, and finds each one broken.

mod reference;

use super::rig::Guarded;
use super::{Report, check};
use crate::buffer::Piece;
use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::vec::Vec;
use reference::{BUGS, Bug, Reference};

fn judge(bug: Option<Bug>) -> Result<Report, super::Failure> {
    check(&mut || Box::new(Reference::new(bug)))
}

#[test]
fn a_device_that_keeps_its_promises_passes_every_check() {
    let report = judge(None).unwrap_or_else(|failure| panic!("{failure}"));
    assert_eq!(report.passed.len(), super::CHECKS.len(), "{report:?}");
    assert!(report.skipped.is_empty(), "{report:?}");
}

#[test]
fn every_broken_promise_is_found_by_its_check() {
    let mut wrong = Vec::new();
    for &(bug, check) in BUGS {
        match judge(Some(bug)) {
            Err(failure) if failure.check == check => assert!(failure.to_string().contains(failure.promise)),
            judged => wrong.push((bug, judged)),
        }
    }
    assert!(wrong.is_empty(), "not found, or by another check: {wrong:#?}");
    for check in super::CHECKS {
        assert!(
            BUGS.iter().any(|(_, name)| *name == check.name),
            "no bug shows that {} can fail",
            check.name
        );
    }
}

#[test]
fn a_write_beside_the_memory_shows_in_its_guards() {
    for at in [0, 63, 64 + 10, 64 + 10 + 63] {
        let memory = Guarded::new(10);
        memory.inner().scatter(0, Piece::Bytes(&[1; 10]));
        assert!(memory.is_intact());
        memory.write_beside(at);
        assert!(!memory.is_intact(), "{at}");
    }
}
