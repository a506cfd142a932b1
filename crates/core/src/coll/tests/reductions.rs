//! Reductions and scans, with operations that commute and one that does not.

use super::*;
use crate::datatype::Predefined;
use crate::op::{Operation, Reducer};
use alloc::sync::Arc;

/// An operation, its name, and random operands for which the result does not depend on rounding.
struct Kind {
    name: &'static str,
    reducer: Reducer,
    operand: fn(&mut Random) -> Vec<u8>,
}

/// Composition of affine maps x → ax + b over 16 bits: associative, and as far from commutative as can be.
fn compose(input: &[u8], inout: &mut [u8]) {
    for (f, g) in input.as_chunks::<4>().0.iter().zip(inout.as_chunks_mut::<4>().0) {
        let part = |map: &[u8; 4], at: usize| u16::from_le_bytes([map[at], map[at + 1]]);
        let a = part(f, 0).wrapping_mul(part(g, 0));
        let b = part(f, 0).wrapping_mul(part(g, 2)).wrapping_add(part(f, 2));
        g[..2].copy_from_slice(&a.to_le_bytes());
        g[2..].copy_from_slice(&b.to_le_bytes());
    }
}

fn kinds() -> Vec<Kind> {
    let predefined = |operation, datatype| Reducer::predefined(operation, datatype).unwrap();
    vec![
        Kind {
            name: "sum of int",
            reducer: predefined(Operation::Sum, Predefined::Int),
            operand: |random| random.bytes(4),
        },
        Kind {
            name: "sum of double",
            reducer: predefined(Operation::Sum, Predefined::Double),
            operand: |random| (random.index(1000) as f64).to_le_bytes().to_vec(),
        },
        Kind {
            name: "maxloc of double-int",
            reducer: predefined(Operation::Maxloc, Predefined::DoubleInt),
            operand: |random| {
                let mut pair = (random.index(4) as f64).to_le_bytes().to_vec();
                pair.extend((random.index(100) as u64).to_le_bytes());
                pair
            },
        },
        Kind {
            name: "composition",
            reducer: Reducer::user(Arc::new(compose), 4, false).unwrap(),
            operand: |random| random.bytes(4),
        },
        Kind {
            name: "composition of bytes xor, called commutative",
            reducer: Reducer::user(
                Arc::new(|a: &[u8], b: &mut [u8]| a.iter().zip(b).for_each(|(a, b)| *b ^= a)),
                3,
                true,
            )
            .unwrap(),
            operand: |random| random.bytes(3),
        },
    ]
}

/// Element counts: none, one, fewer than ranks, more, no multiple.
const COUNTS: [usize; 5] = [0, 1, 3, 16, 45];

impl Kind {
    fn vector(&self, random: &mut Random, count: usize) -> Vec<u8> {
        (0..count).flat_map(|_| (self.operand)(random)).collect()
    }

    /// From left to right.
    fn fold<'a>(&self, operands: impl DoubleEndedIterator<Item = &'a Vec<u8>>) -> Option<Vec<u8>> {
        operands.rev().fold(None, |right: Option<Vec<u8>>, left| match right {
            None => Some(left.clone()),
            Some(mut right) => {
                self.reducer.apply(left, &mut right);
                Some(right)
            }
        })
    }

    fn each(&self, collective: Collective, mut f: impl FnMut(u32, usize, Choice, bool)) {
        for size in SIZES {
            for count in COUNTS {
                for choice in algorithms(collective, size, self.reducer.is_commutative()) {
                    for in_place in [false, true] {
                        f(size, count, choice, in_place);
                    }
                }
            }
        }
    }
}

/// Each rank's operand, and receive buffers: garbage, or in place the operand.
fn operands(
    random: &mut Random,
    kind: &Kind,
    size: u32,
    count: usize,
    in_place: bool,
) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let sends: Vec<_> = (0..size).map(|_| kind.vector(random, count)).collect();
    let recvs =
        if in_place { sends.clone() } else { sends.iter().map(|send| random.bytes(send.len())).collect() };
    (sends, recvs)
}

#[test]
fn allreduce_gives_all_ranks_the_fold_in_rank_order() {
    let mut random = Random::new(301);
    for kind in kinds() {
        kind.each(Collective::Allreduce, |size, count, choice, in_place| {
            let (sends, recvs) = operands(&mut random, &kind, size, count, in_place);
            let result = kind.fold(sends.iter()).unwrap();
            Scenario {
                label: format!("allreduce {} {choice:?} {size}×{count} in place {in_place}", kind.name),
                expected: vec![result; size as usize],
                sends,
                recvs,
            }
            .exercise(random.next_u64(), &|pool, context, send, recv| {
                allreduce(pool, context, (!in_place).then_some(send), recv, &kind.reducer, choice)
            });
        });
    }
}

#[test]
fn reduce_gives_the_root_the_fold_in_rank_order() {
    let mut random = Random::new(302);
    for kind in kinds() {
        kind.each(Collective::Reduce, |size, count, choice, in_place| {
            for root in [0, size / 2, size - 1] {
                let (sends, recvs) = operands(&mut random, &kind, size, count, in_place);
                let mut expected = recvs.clone();
                expected[root as usize] = kind.fold(sends.iter()).unwrap();
                Scenario {
                    label: format!(
                        "reduce {} {choice:?} {size}×{count} to {root} in place {in_place}",
                        kind.name
                    ),
                    expected,
                    sends,
                    recvs,
                }
                .exercise(random.next_u64(), &|pool, context, send, recv| {
                    let at_root = context.rank == root;
                    let send = (!(at_root && in_place)).then_some(send);
                    reduce(pool, context, send, at_root.then_some(recv), &kind.reducer, root, choice)
                });
            }
        });
    }
}

#[test]
fn scan_and_exscan_give_each_rank_the_fold_of_those_below() {
    let mut random = Random::new(303);
    for kind in kinds() {
        for (inclusive, collective) in [(true, Collective::Scan), (false, Collective::Exscan)] {
            kind.each(collective, |size, count, choice, in_place| {
                let (sends, recvs) = operands(&mut random, &kind, size, count, in_place);
                let expected = (0..size as usize)
                    .map(|rank| {
                        let below = rank + usize::from(inclusive);
                        kind.fold(sends[..below].iter()).unwrap_or_else(|| recvs[rank].clone())
                    })
                    .collect();
                Scenario {
                    label: format!(
                        "{} {} {choice:?} {size}×{count} in place {in_place}",
                        collective.name(),
                        kind.name
                    ),
                    expected,
                    sends,
                    recvs,
                }
                .exercise(random.next_u64(), &|pool, context, send, recv| {
                    let send = (!in_place).then_some(send);
                    let make = if inclusive { scan } else { exscan };
                    make(pool, context, send, recv, &kind.reducer, choice)
                });
            });
        }
    }
}

#[test]
fn reduce_scatter_gives_each_rank_its_part_of_the_fold() {
    let mut random = Random::new(304);
    for kind in kinds() {
        kind.each(Collective::ReduceScatter, |size, count, choice, in_place| {
            let extent = kind.reducer.extent_bytes();
            for equal in [false, true] {
                let counts: Vec<usize> =
                    (0..size).map(|_| extent * if equal { count } else { random.index(count + 1) }).collect();
                let total: usize = counts.iter().sum();
                let sends: Vec<_> = (0..size).map(|_| kind.vector(&mut random, total / extent)).collect();
                let recvs: Vec<_> = if in_place {
                    sends.clone()
                } else {
                    counts.iter().map(|&bytes| random.bytes(bytes)).collect()
                };
                let all = kind.fold(sends.iter()).unwrap();
                let mut expected = recvs.clone();
                let mut at = 0;
                for (part, &bytes) in expected.iter_mut().zip(&counts) {
                    part[..bytes].copy_from_slice(&all[at..at + bytes]);
                    at += bytes;
                }
                Scenario {
                    label: format!(
                        "reduce_scatter {} {choice:?} {size}×{counts:?} in place {in_place}",
                        kind.name
                    ),
                    expected,
                    sends,
                    recvs,
                }
                .exercise(random.next_u64(), &|pool, context, send, recv| {
                    let counts = if equal { Counts::Uniform(count * extent) } else { Counts::Each(&counts) };
                    let send = (!in_place).then_some(send);
                    reduce_scatter(pool, context, send, recv, counts, &kind.reducer, choice)
                });
            }
        });
    }
}

#[test]
fn results_of_rounding_operations_are_the_same_at_all_ranks() {
    let mut random = Random::new(305);
    let sum = Reducer::predefined(Operation::Sum, Predefined::Float).unwrap();
    for size in SIZES {
        for choice in algorithms(Collective::Allreduce, size, true) {
            let vector = |random: &mut Random| -> Vec<u8> {
                (0..37).flat_map(|_| (random.index(1 << 24) as f32 * 1e-3).to_le_bytes()).collect()
            };
            let sends: Vec<_> = (0..size).map(|_| Memory::new(&vector(&mut random))).collect();
            let recvs: Vec<_> = (0..size).map(|_| Memory::new(&[0; 37 * 4])).collect();
            let mut schedules: Vec<_> = (0..size)
                .map(|rank| {
                    let (send, recv) = (sends[rank as usize].buffer, recvs[rank as usize].buffer);
                    let context = Context { rank, size };
                    allreduce(&mut Pool::default(), context, Some(send), recv, &sum, choice).unwrap()
                })
                .collect();
            World::run(&mut schedules, Delivery::Random(random.next_u64())).unwrap();
            assert!(recvs.iter().all(|recv| recv.get() == recvs[0].get()), "{choice:?} of {size}");
        }
    }
}
