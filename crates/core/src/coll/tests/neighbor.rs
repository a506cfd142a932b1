//! Operations among neighbours: random graphs with several edges between two processes, and loops.

use super::*;

/// The edges of a graph in the order in which their sources send, each with its length in bytes.
fn random_edges(random: &mut Random, size: u32) -> Vec<(Rank, Rank, usize)> {
    let mut edges = Vec::new();
    for from in 0..size {
        for _ in 0..random.index(6) {
            edges.push((from, random.index(size as usize) as Rank, [0, 1, 7, 300][random.index(4)]));
        }
    }
    edges
}

/// The edges that end at a process, the sources in an order of their own.
fn ending_at(edges: &[(Rank, Rank, usize)], rank: Rank, size: u32) -> Vec<(Rank, usize)> {
    let order = (0..size).map(|at| (at * 7 + rank) % size).filter(|_| !size.is_multiple_of(7));
    let order: Vec<Rank> = if size.is_multiple_of(7) { (0..size).rev().collect() } else { order.collect() };
    let from = |source| edges.iter().filter(move |edge| edge.0 == source && edge.1 == rank);
    order.into_iter().flat_map(from).map(|edge| (edge.0, edge.2)).collect()
}

fn blocks(peers: impl Iterator<Item = (Rank, usize)>, whole: Buffer) -> Vec<(Rank, Buffer)> {
    let mut start = 0;
    let block = |(peer, len)| {
        start += len;
        (peer, whole.part(start - len, len))
    };
    peers.map(block).collect()
}

#[test]
fn neighbors_get_their_blocks_in_the_order_of_edges() {
    let mut random = Random::new(501);
    for round in 0..4 {
        for size in SIZES {
            let edges = random_edges(&mut random, size);
            let starting =
                |rank| edges.iter().filter(move |edge| edge.0 == rank).map(|edge| (edge.1, edge.2));
            let length = |rank| starting(rank).map(|(_, len)| len).sum();
            let sends: Vec<Vec<u8>> = (0..size).map(|rank| random.bytes(length(rank))).collect();
            // The bytes of an edge: those at its place in its source's buffer.
            let sent = |from: Rank, to: Rank| {
                let mut start = 0;
                let mut found = Vec::new();
                for (other, len) in starting(from) {
                    if other == to {
                        found.push(sends[from as usize][start..start + len].to_vec());
                    }
                    start += len;
                }
                found
            };
            let expected: Vec<Vec<u8>> = (0..size)
                .map(|rank| {
                    let mut sources: Vec<Rank> =
                        ending_at(&edges, rank, size).iter().map(|(source, _)| *source).collect();
                    sources.dedup();
                    sources.into_iter().flat_map(|source| sent(source, rank)).flatten().collect()
                })
                .collect();
            let recvs = expected.iter().map(|bytes| random.bytes(bytes.len())).collect();
            let label = format!("neighbor, round {round}, size {size}, {edges:?}");
            Scenario { label, sends: sends.clone(), recvs, expected }.exercise(
                random.next_u64(),
                &|pool, context, send, recv| {
                    let sends = blocks(starting(context.rank), send);
                    let receives = blocks(ending_at(&edges, context.rank, size).into_iter(), recv);
                    neighbor(pool, context, &sends, &receives)
                },
            );
        }
    }
}

#[test]
fn wrong_neighbors_are_refused() {
    let context = Context { rank: 1, size: 3 };
    let mut pool = Pool::default();
    let block = Buffer::virtual_of(8);
    let stranger = neighbor(&mut pool, context, &[(3, block)], &[]);
    assert!(matches!(stranger, Err(Error::Rank { rank: 3, size: 3 })));
    let one_sided = neighbor(&mut pool, context, &[(1, block)], &[(0, block)]);
    assert!(matches!(one_sided, Err(Error::Argument(_))));
    let longer = neighbor(&mut pool, context, &[(1, block)], &[(1, Buffer::virtual_of(9))]);
    assert!(matches!(longer, Err(Error::Argument(_))));
}
