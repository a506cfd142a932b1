//! Operations between two groups, of all small sizes, whichever is numbered first.

use super::super::across::{self, Part};
use super::rooted::{Layout, lengths, with_blocks};
use super::*;
use crate::datatype::Predefined;
use crate::op::Operation;

const PAIRS: [(u32, u32); 9] = [(1, 1), (1, 2), (2, 1), (1, 5), (3, 2), (2, 4), (4, 3), (5, 7), (8, 3)];

/// Members 0 … `first`-1 are one group, the others the second.
#[derive(Clone, Copy)]
struct Groups {
    first: u32,
    second: u32,
}

impl Groups {
    fn all() -> impl Iterator<Item = Self> {
        PAIRS.into_iter().map(|(first, second)| Self { first, second })
    }

    fn size(self) -> u32 {
        self.first + self.second
    }

    fn at(self, number: u32) -> Across {
        let is_first = number < self.first;
        match is_first {
            true => Across { rank: number, size: self.first, remote_size: self.second, is_first },
            false => {
                Across { rank: number - self.first, size: self.second, remote_size: self.first, is_first }
            }
        }
    }

    /// The numbers of the other group's members.
    fn others(self, number: u32) -> core::ops::Range<usize> {
        match self.at(number).is_first {
            true => self.first as usize..self.size() as usize,
            false => 0..self.first as usize,
        }
    }

    /// Some roots, by their numbers.
    fn roots(self) -> [u32; 3] {
        [0, self.first, self.size() - 1]
    }

    fn part(self, number: u32, root: u32) -> Part {
        let at = self.at(number);
        match (number == root, at.is_first == self.at(root).is_first) {
            (true, _) => Part::Root,
            (_, true) => Part::None,
            (_, false) => Part::Remote(self.at(root).rank),
        }
    }
}

fn choose(collective: Collective, size: u32, bytes: usize, commutative: bool) -> Choice {
    super::super::select::choose(&Question { collective, bytes, size, commutative }, &Fabric::default())
}

#[test]
fn across_bcast_reaches_the_other_group_only() {
    let mut random = Random::new(1);
    for groups in Groups::all() {
        for root in groups.roots() {
            for len in [0, 1, 77, 5000] {
                let recvs: Vec<_> = (0..groups.size()).map(|_| random.bytes(len)).collect();
                let reached = |number: u32| matches!(groups.part(number, root), Part::Remote(_));
                let got = |number: u32| if reached(number) { root } else { number };
                Scenario {
                    label: format!("bcast {}+{} root {root} of {len}", groups.first, groups.second),
                    sends: vec![Vec::new(); groups.size() as usize],
                    expected: (0..groups.size()).map(|n| recvs[got(n) as usize].clone()).collect(),
                    recvs,
                }
                .exercise(random.next_u64(), &|pool, context, _, recv| {
                    let part = groups.part(context.rank, root);
                    across::bcast(pool, groups.at(context.rank), recv, part, &mut choose)
                });
            }
        }
    }
}

#[test]
fn across_gather_and_scatter_move_the_other_groups_blocks() {
    let mut random = Random::new(2);
    for groups in Groups::all() {
        for root in groups.roots() {
            let others = groups.others(root);
            let layout = Layout::of(&lengths(&mut random, others.len() as u32));
            let blocks: Vec<_> = layout.parts.iter().map(|&(_, len)| random.bytes(len)).collect();
            let mut whole = vec![7; layout.total];
            blocks.iter().enumerate().for_each(|(rank, block)| layout.put(&mut whole, rank, block));
            // At each member: its block; at the root: all.
            let of_each = |own: &dyn Fn(usize) -> Vec<u8>, all: Vec<u8>| -> Vec<Vec<u8>> {
                let of = |number: usize| match number {
                    _ if number == root as usize => all.clone(),
                    _ if others.contains(&number) => own(number - others.start),
                    _ => Vec::new(),
                };
                (0..groups.size() as usize).map(of).collect()
            };
            let own = |rank: usize| blocks[rank].clone();
            let blank = |rank: usize| vec![0; blocks[rank].len()];
            let label = format!("{}+{} root {root} {:?}", groups.first, groups.second, layout.parts);
            let zeros = vec![7; layout.total];
            Scenario {
                label: format!("gather {label}"),
                sends: of_each(&own, Vec::new()),
                recvs: of_each(&|_| Vec::new(), zeros),
                expected: of_each(&|_| Vec::new(), whole.clone()),
            }
            .exercise(random.next_u64(), &|pool, context, send, recv| {
                let (at, part) = (groups.at(context.rank), groups.part(context.rank, root));
                match part {
                    Part::Root => with_blocks(&layout, false, recv, |recv| {
                        across::gather(pool, at, None, Some(recv), part)
                    }),
                    _ => across::gather(pool, at, Some(send), None, part),
                }
            });
            Scenario {
                label: format!("scatter {label}"),
                sends: of_each(&|_| Vec::new(), whole),
                recvs: of_each(&blank, Vec::new()),
                expected: of_each(&own, Vec::new()),
            }
            .exercise(random.next_u64(), &|pool, context, send, recv| {
                let (at, part) = (groups.at(context.rank), groups.part(context.rank, root));
                match part {
                    Part::Root => with_blocks(&layout, false, send, |send| {
                        across::scatter(pool, at, Some(send), None, part)
                    }),
                    _ => across::scatter(pool, at, None, Some(recv), part),
                }
            });
        }
    }
}

#[test]
fn across_allgather_gives_each_group_the_others_blocks() {
    let mut random = Random::new(3);
    for groups in Groups::all() {
        for uniform in [false, true] {
            let len = [0, 8, 300][random.index(3)];
            let layout_of = |random: &mut Random, size: u32| match uniform {
                true => Layout::equal(size, len),
                false => Layout::of(&lengths(random, size)),
            };
            let layouts = [layout_of(&mut random, groups.first), layout_of(&mut random, groups.second)];
            let side = |number: u32| usize::from(!groups.at(number).is_first);
            let sends: Vec<_> = (0..groups.size())
                .map(|n| random.bytes(layouts[side(n)].parts[groups.at(n).rank as usize].1))
                .collect();
            let other = |n: u32| &layouts[1 - side(n)];
            let expected = |n: u32| {
                let mut bytes = vec![9; other(n).total];
                groups.others(n).enumerate().for_each(|(rank, m)| other(n).put(&mut bytes, rank, &sends[m]));
                bytes
            };
            Scenario {
                label: format!("allgather {}+{} uniform {uniform}", groups.first, groups.second),
                recvs: (0..groups.size()).map(|n| vec![9; other(n).total]).collect(),
                expected: (0..groups.size()).map(expected).collect(),
                sends: sends.clone(),
            }
            .exercise(random.next_u64(), &|pool, context, send, recv| {
                with_blocks(other(context.rank), uniform, recv, |recv| {
                    across::allgather(pool, groups.at(context.rank), send, recv, &mut choose)
                })
            });
        }
    }
}

#[test]
fn across_alltoall_exchanges_a_block_with_each() {
    let mut random = Random::new(4);
    for groups in Groups::all() {
        // The block from the first group's i to the second's j is [i][j], back [j][i].
        let there: Vec<_> = (0..groups.first).map(|_| lengths(&mut random, groups.second)).collect();
        let back: Vec<_> = (0..groups.second).map(|_| lengths(&mut random, groups.first)).collect();
        let of = |matrix: &[Vec<usize>], number: u32| matrix[groups.at(number).rank as usize].clone();
        let column = |matrix: &[Vec<usize>], number: u32| -> Vec<usize> {
            matrix.iter().map(|row| row[groups.at(number).rank as usize]).collect()
        };
        let out = |n: u32| if groups.at(n).is_first { of(&there, n) } else { of(&back, n) };
        let into = |n: u32| if groups.at(n).is_first { column(&back, n) } else { column(&there, n) };
        let out: Vec<_> = (0..groups.size()).map(|n| Layout::of(&out(n))).collect();
        let into: Vec<_> = (0..groups.size()).map(|n| Layout::of(&into(n))).collect();
        let sends: Vec<_> = out.iter().map(|layout| random.bytes(layout.total)).collect();
        let expected = |n: u32| {
            let mut bytes = vec![3; into[n as usize].total];
            for (rank, m) in groups.others(n).enumerate() {
                let block = out[m].get(&sends[m], groups.at(n).rank as usize);
                into[n as usize].put(&mut bytes, rank, block);
            }
            bytes
        };
        Scenario {
            label: format!("alltoall {}+{}", groups.first, groups.second),
            recvs: into.iter().map(|layout| vec![3; layout.total]).collect(),
            expected: (0..groups.size()).map(expected).collect(),
            sends: sends.clone(),
        }
        .exercise(random.next_u64(), &|pool, context, send, recv| {
            let (out, into) = (&out[context.rank as usize], &into[context.rank as usize]);
            let (send, recv) = (out.blocks(send), into.blocks(recv));
            let at = groups.at(context.rank);
            across::alltoall(pool, at, Blocks::Each(&send), Blocks::Each(&recv))
        });
    }
}

fn numbers(random: &mut Random, count: usize) -> Vec<u8> {
    random.bytes(8 * count)
}

/// The sum of the other group's operands.
fn sum_of_others(groups: Groups, number: u32, sends: &[Vec<u8>]) -> Vec<u8> {
    let word = |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[8 * at..8 * at + 8].try_into().unwrap());
    let others = &sends[groups.others(number)];
    let sum = |at: usize| others.iter().fold(0u64, |sum, send| sum.wrapping_add(word(send, at)));
    (0..others[0].len() / 8).flat_map(|at| sum(at).to_le_bytes()).collect()
}

#[test]
fn across_reductions_give_each_group_the_others_result() {
    let mut random = Random::new(5);
    let reducer = Reducer::predefined(Operation::Sum, Predefined::Uint64).unwrap();
    for groups in Groups::all() {
        for count in [0, 1, 40, 900] {
            let sends: Vec<_> = (0..groups.size()).map(|_| numbers(&mut random, count)).collect();
            let label = format!("{}+{} of {count}", groups.first, groups.second);
            let blank = || vec![vec![1; 8 * count]; groups.size() as usize];
            Scenario {
                label: format!("allreduce {label}"),
                recvs: blank(),
                expected: (0..groups.size()).map(|n| sum_of_others(groups, n, &sends)).collect(),
                sends: sends.clone(),
            }
            .exercise(random.next_u64(), &|pool, context, send, recv| {
                across::allreduce(pool, groups.at(context.rank), send, recv, &reducer, &mut choose)
            });
            for root in groups.roots() {
                let mut expected = blank();
                expected[root as usize] = sum_of_others(groups, root, &sends);
                Scenario {
                    label: format!("reduce {label} root {root}"),
                    recvs: blank(),
                    expected,
                    sends: sends.clone(),
                }
                .exercise(random.next_u64(), &|pool, context, send, recv| {
                    let (at, part) = (groups.at(context.rank), groups.part(context.rank, root));
                    across::reduce(pool, at, Some(send), Some(recv), &reducer, part, &mut choose)
                });
            }
        }
    }
}

#[test]
fn across_reduce_scatter_scatters_the_other_groups_result() {
    let mut random = Random::new(6);
    let reducer = Reducer::predefined(Operation::Sum, Predefined::Uint64).unwrap();
    for groups in Groups::all() {
        let total = (groups.first * groups.second) as usize * 3;
        // One member gets all of its group's part, or all members get equal parts.
        let counts = |size: u32, equal: bool| -> Vec<usize> {
            let last = size as usize - 1;
            let of = |rank: usize| if rank == last { 8 * total } else { 0 };
            (0..=last).map(|rank| if equal { 8 * total / size as usize } else { of(rank) }).collect()
        };
        for equal in [true, false] {
            let counts = [counts(groups.first, equal), counts(groups.second, equal)];
            let own = |n: u32| &counts[usize::from(!groups.at(n).is_first)];
            let sends: Vec<_> = (0..groups.size()).map(|_| numbers(&mut random, total)).collect();
            let expected = |n: u32| {
                let rank = groups.at(n).rank as usize;
                let start: usize = own(n)[..rank].iter().sum();
                sum_of_others(groups, n, &sends)[start..start + own(n)[rank]].to_vec()
            };
            Scenario {
                label: format!("reduce_scatter {}+{}", groups.first, groups.second),
                recvs: (0..groups.size()).map(|n| vec![1; own(n)[groups.at(n).rank as usize]]).collect(),
                expected: (0..groups.size()).map(expected).collect(),
                sends: sends.clone(),
            }
            .exercise(random.next_u64(), &|pool, context, send, recv| {
                let at = groups.at(context.rank);
                across::reduce_scatter(pool, at, send, recv, own(context.rank), &reducer, &mut choose)
            });
        }
    }
}

#[test]
fn across_arguments_that_do_not_fit_are_refused() {
    let mut pool = Pool::default();
    let at = Across { rank: 0, size: 2, remote_size: 3, is_first: true };
    let short = Buffer::virtual_of(7);
    let lengths = Some(OTHER_LENGTHS);
    let error = across::bcast(&mut pool, at, short, Part::Remote(3), &mut choose).err();
    assert_eq!(error, Some(Error::Root { root: 3, size: 3 }));
    assert!(across::gather(&mut pool, at, None, None, Part::Root).is_err());
    assert!(across::scatter(&mut pool, at, None, None, Part::Remote(1)).is_err());
    assert_eq!(across::gather(&mut pool, at, None, Some(Blocks::Uniform(short)), Part::Root).err(), lengths);
    let root = Some(Error::Root { root: 3, size: 3 });
    let remote = Part::Remote(3);
    assert_eq!(across::gather(&mut pool, at, Some(short), None, remote).err(), root);
    assert_eq!(across::scatter(&mut pool, at, None, Some(short), remote).err(), root);
    let nine = Blocks::Uniform(Buffer::virtual_of(9));
    assert_eq!(across::scatter(&mut pool, at, Some(Blocks::Uniform(short)), None, Part::Root).err(), lengths);
    let blocks = Blocks::Uniform(short);
    assert_eq!(across::alltoall(&mut pool, at, nine, blocks).err(), lengths);
    assert_eq!(across::alltoall(&mut pool, at, blocks, nine).err(), lengths);
    assert!(across::alltoall(&mut pool, at, nine, nine).is_ok());
    assert_eq!(across::allgather(&mut pool, at, short, blocks, &mut choose).err(), lengths);
    assert_eq!(across::alltoall(&mut pool, at, blocks, blocks).err(), lengths);
    let (bytes, long) =
        (Reducer::predefined(Operation::Sum, Predefined::Uint8).unwrap(), Buffer::virtual_of(8));
    assert_eq!(across::allreduce(&mut pool, at, short, long, &bytes, &mut choose).err(), lengths);
    let reduced = across::reduce(&mut pool, at, Some(short), None, &bytes, remote, &mut choose);
    assert_eq!(reduced.err(), root);
    for counts in [&[3, 5][..], &[7, 2], &[7]] {
        let made = across::reduce_scatter(&mut pool, at, long, short, counts, &bytes, &mut choose);
        assert_eq!(made.err(), lengths, "{counts:?}");
    }
    assert!(across::reduce_scatter(&mut pool, at, long, short, &[7, 1], &bytes, &mut choose).is_ok());
    // A member that scatters nothing knows its own part.
    let last = Across { rank: 1, ..at };
    let made = across::reduce_scatter(&mut pool, last, long, short, &[7, 1], &bytes, &mut choose);
    assert_eq!(made.err(), lengths);
}
