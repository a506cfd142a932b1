//! Check mode: members that agree get their results, others an error that names the one that differs.

use super::*;
use crate::coll::{Amount, Claim, Collective, Context, Schedule};
use crate::error::Difference;

const INTS: u64 = 7;
const FLOATS: u64 = 8;

fn amount(bytes: u64) -> Amount {
    Amount { bytes, types: INTS }
}

/// A broadcast of so many bytes from rank 0.
fn bcast(process: &mut Process, context: Context, buffer: Buffer) -> Result<Schedule, Error> {
    let choice = coll::Choice { algorithm: coll::Algorithm::Binomial, segment_bytes: 0 };
    coll::bcast(process.schedule_pool(), context, buffer, 0, choice)
}

fn claim_of_bcast(bytes: u64) -> Claim {
    Claim { common: Some(amount(bytes)), ..Claim::new(Collective::Bcast, Some(0)) }
}

/// Each process makes the claim of `claim` and runs a broadcast of 100 bytes if all agree. Returns each one's
/// error and bytes.
fn outcomes(net: &mut Net, claim: impl Fn(usize) -> Claim) -> Vec<(Option<Error>, Vec<u8>)> {
    let count = net.nodes.len();
    let mut under_way = vec![];
    for at in 0..count {
        let (process, port) = &mut net.nodes[at];
        let (buffer, bytes) = memory(vec![if at == 0 { 5 } else { 0 }; 100]);
        let schedule = bcast(process, Context { rank: at as u32, size: count as u32 }, buffer);
        let claim = claim(at);
        let posted =
            process.collectives().start_compared(port, CommId::WORLD, schedule, claim, None).unwrap();
        under_way.push((posted, bytes));
    }
    net.settle();
    let ends = under_way.into_iter().enumerate().map(|(at, (posted, bytes))| {
        let completion = match posted {
            Posted::Done(completion) => completion,
            Posted::Pending(id) => net.nodes[at].0.take(id).unwrap().expect("it is over"),
        };
        (completion.error, bytes.to_vec())
    });
    let ends = ends.collect();
    net.nothing_left();
    ends
}

/// All get this error, and the next operation of the communicator is as ever.
fn all_find(count: usize, error: Error, claim: impl Fn(usize) -> Claim) {
    let mut net = Net::of_short_packets(count, 3);
    for (found, bytes) in outcomes(&mut net, claim) {
        assert_eq!(found, Some(error));
        assert!(bytes.iter().all(|byte| *byte == bytes[0]), "the broadcast did not run");
    }
    assert!(outcomes(&mut net, |_| claim_of_bcast(100)).iter().all(|(error, _)| error.is_none()));
}

const fn unlike(what: Difference, rank: u32, theirs: u64, others: u64) -> Error {
    Error::Unlike { what, rank, theirs, others }
}

#[test]
fn types_are_compared_of_data_and_not_of_nothing() {
    let claim = |bytes: u64| {
        move |at: usize| Claim {
            common: Some(Amount { bytes, types: if at == 1 { FLOATS } else { INTS } }),
            ..Claim::new(Collective::Bcast, Some(0))
        }
    };
    let mut net = Net::of_short_packets(3, 3);
    assert!(outcomes(&mut net, claim(0)).iter().all(|(error, _)| error.is_none()));
    all_find(3, unlike(Difference::Types, 1, 1, 1), claim(1));
}

#[test]
fn members_that_agree_get_their_result() {
    for count in 1..9 {
        let mut net = Net::of_short_packets(count, count as u64);
        for (error, bytes) in outcomes(&mut net, |_| claim_of_bcast(100)) {
            assert_eq!((error, bytes), (None, vec![5; 100]));
        }
    }
}

#[test]
fn another_call_root_reduction_or_length_is_found_by_all() {
    let number = |collective| Collective::ALL.iter().position(|other| *other == collective).unwrap() as u64;
    let (reduce, bcast) = (number(Collective::Reduce), number(Collective::Bcast));
    all_find(4, unlike(Difference::Call, 2, reduce, bcast), |at| match at {
        2 => Claim { collective: Collective::Reduce, ..claim_of_bcast(100) },
        _ => claim_of_bcast(100),
    });
    all_find(5, unlike(Difference::Root, 4, 3, 0), |at| match at {
        4 => Claim { root: Some(3), ..claim_of_bcast(100) },
        _ => claim_of_bcast(100),
    });
    all_find(2, unlike(Difference::Reduction, 1, 2, 1), |at| Claim {
        reduction: 1 + at as u32,
        ..claim_of_bcast(100)
    });
    all_find(3, unlike(Difference::Bytes, 1, 40, 100), |at| claim_of_bcast(if at == 1 { 40 } else { 100 }));
}

#[test]
fn other_types_are_found_unless_any_will_do() {
    let of = |types| Claim { common: Some(Amount { bytes: 100, types }), ..claim_of_bcast(100) };
    all_find(3, unlike(Difference::Types, 2, 100, 100), |at| of(if at == 2 { FLOATS } else { INTS }));
    // Packed data at rank 0 does not hide that the others differ.
    all_find(3, unlike(Difference::Types, 2, 100, 100), |at| of([0, FLOATS, INTS][at]));
    let mut net = Net::of_short_packets(3, 0);
    assert!(outcomes(&mut net, |at| of([INTS, 0, INTS][at])).iter().all(|(error, _)| error.is_none()));
}

#[test]
fn what_one_alone_expects_of_another_is_told_to_all() {
    // Rank 1 gives 24 bytes, the root expects 16 of each.
    let gatherv = |at: usize| Claim {
        own: Some(amount(if at == 1 { 24 } else { 16 })),
        expected: if at == 0 { vec![amount(16); 4] } else { vec![] },
        ..Claim::new(Collective::Gatherv, Some(0))
    };
    all_find(4, unlike(Difference::ExpectedBytes, 1, 24, 16), gatherv);
    let fits = |at: usize| Claim { own: Some(amount(16)), ..gatherv(at) };
    let mut net = Net::of_short_packets(4, 1);
    assert!(outcomes(&mut net, fits).iter().all(|(error, _)| error.is_none()));
}

#[test]
fn an_alltoall_of_any_blocks_is_compared_pair_by_pair() {
    // Block of `from` for `to`; rank 2 sends floats to rank 1, which expects integers.
    let block = |from: usize, to: usize| amount((10 * from + to) as u64);
    let claim = |at: usize, is_wrong: bool| {
        let mut sends: Vec<Amount> = (0..4).map(|to| block(at, to)).collect();
        if is_wrong && at == 2 {
            sends[1].types = FLOATS;
        }
        let expected = (0..4).map(|from| block(from, at)).collect();
        Claim { sends, expected, ..Claim::new(Collective::Alltoallv, None) }
    };
    all_find(4, unlike(Difference::ExpectedTypes, 2, 21, 21), |at| claim(at, true));
    let mut net = Net::of_short_packets(4, 1);
    assert!(outcomes(&mut net, |at| claim(at, false)).iter().all(|(error, _)| error.is_none()));
}

/// Otherwise the others would wait for it without end.
#[test]
fn a_call_that_has_failed_at_one_ends_at_all() {
    let mut net = Net::of_short_packets(3, 0);
    let mut under_way = vec![];
    for at in 0..3 {
        let (process, port) = &mut net.nodes[at];
        let (buffer, _bytes) = memory(vec![0; 10]);
        let schedule = match at {
            1 => Err(Error::Count),
            _ => bcast(process, Context { rank: at as u32, size: 3 }, buffer),
        };
        let claim = claim_of_bcast(10);
        let posted =
            process.collectives().start_compared(port, CommId::WORLD, schedule, claim, None).unwrap();
        let Posted::Pending(id) = posted else { panic!("nobody else has called") };
        under_way.push(id);
    }
    net.settle();
    for (at, id) in under_way.into_iter().enumerate() {
        let error = net.nodes[at].0.take(id).unwrap().expect("it is over").error;
        let expected = if at == 1 { Error::Count } else { unlike(Difference::Failed, 1, 0, 0) };
        assert_eq!(error, Some(expected), "rank {at}");
    }
    net.nothing_left();
}

#[test]
fn a_member_that_dies_while_the_others_compare_ends_it() {
    let mut net = Net::of_short_packets(3, 0);
    let (process, port) = &mut net.nodes[0];
    let (buffer, _bytes) = memory(vec![0; 10]);
    let schedule = bcast(process, Context { rank: 0, size: 3 }, buffer);
    let claim = claim_of_bcast(10);
    let posted = process.collectives().start_compared(port, CommId::WORLD, schedule, claim, None).unwrap();
    let Posted::Pending(id) = posted else { panic!("nobody else has called") };
    process.handle_event(port, Event::PeerGone(ProcessId(1)));
    process.progress(port);
    let error = process.take(id).unwrap().expect("over").error;
    assert_eq!(error, Some(Error::ProcessAborted(ProcessId(1))));
    assert_eq!(process.counts().posted, 0);
}

#[test]
fn message_names_the_rank_that_differs_and_how() {
    let said = |error: Error| alloc::string::ToString::to_string(&error);
    assert_eq!(
        said(unlike(Difference::Call, 2, 1, 0)),
        "rank 2 calls another collective operation than rank 0"
    );
    assert_eq!(
        said(unlike(Difference::Bytes, 1, 40, 4)),
        "rank 1 gives data of 40 bytes where lower ranks give 4 bytes"
    );
}
