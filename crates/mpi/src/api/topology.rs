//! Chapter "topology" (MPI-5.0 §8).
//!
//! With `reorder`, `MPI_Cart_create` lays the grid out in blocks of one host each where that leaves fewer
//! neighbours on different hosts (`topology/placement.rs`). All else keeps the order of the old communicator,
//! as the standard allows.

use crate::abi::*;
use crate::api::comm::{color_of_host, create, split};
use crate::arguments::*;
use crate::collective::{Mode, run};
use crate::comm::Comm;
use crate::fault::{Fault, fault};
use crate::info::Info;
use crate::message::elements;
use crate::operation::{Operation, Parts};
use crate::staging::Staging;
use crate::state::process;
use crate::topology::{
    Cartesian, DistGraph, Edges, Graph, Topology, balanced_dimensions, cartesian_placement,
};
use ayatori_core::buffer::Buffer;
use ayatori_core::group::Group;
use ayatori_core::ids::Rank;
use std::ffi::c_int;
use std::sync::Arc;

/// A communicator with a topology.
struct Place {
    topology: Arc<Topology>,
    rank: Rank,
    size: u32,
}

impl Place {
    fn of(comm: MPI_Comm) -> Result<Self, Fault> {
        let process = process()?;
        let comm = process.comms.get(comm, "comm")?;
        let topology = comm.topology.clone().ok_or_else(|| no_topology("no"))?;
        Ok(Self { topology, rank: comm.rank(), size: comm.size() })
    }

    fn cartesian(&self) -> Result<&Cartesian, Fault> {
        match &*self.topology {
            Topology::Cartesian(grid) => Ok(grid),
            _ => Err(no_topology("no Cartesian")),
        }
    }

    fn graph(&self) -> Result<&Graph, Fault> {
        match &*self.topology {
            Topology::Graph(graph) => Ok(graph),
            _ => Err(no_topology("no graph")),
        }
    }

    fn dist_graph(&self) -> Result<&DistGraph, Fault> {
        match &*self.topology {
            Topology::DistGraph(graph) => Ok(graph),
            _ => Err(no_topology("no distributed graph")),
        }
    }

    fn check_rank(&self, rank: c_int) -> Result<Rank, Fault> {
        rank_below(rank, self.size, "rank")
    }
}

fn no_topology(which: &str) -> Fault {
    fault(MPI_ERR_TOPOLOGY, format_args!("argument comm has {which} topology"))
}

/// A rank given by the caller in argument `name`.
fn rank_below(rank: c_int, size: u32, name: &str) -> Result<Rank, Fault> {
    Rank::try_from(rank).ok().filter(|rank| *rank < size).ok_or_else(|| {
        fault(
            MPI_ERR_RANK,
            format_args!("argument {name} has {rank}, which is no rank: there are {size} processes"),
        )
    })
}

/// The members of a communicator.
fn members(comm: MPI_Comm) -> Result<(Group, Rank), Fault> {
    let process = process()?;
    let comm = process.comms.get(comm, "comm_old")?;
    comm.check_intra("comm_old")?;
    Ok((comm.group().clone(), comm.rank()))
}

fn set_topology(comm: MPI_Comm, topology: Topology) -> Result<MPI_Comm, Fault> {
    if comm != MPI_COMM_NULL {
        process()?.comms.get_mut(comm, "comm")?.topology = Some(Arc::new(topology));
    }
    Ok(comm)
}

/// A communicator of some of the members, in the order of these ranks, with a topology.
fn create_of(
    comm: MPI_Comm,
    group: &Group,
    ranks: impl IntoIterator<Item = Rank>,
    topology: Topology,
) -> Result<MPI_Comm, Fault> {
    let group = group.incl(ranks.into_iter().map(|rank| rank as i32))?;
    set_topology(create(comm, &group)?, topology)
}

/// A grid as the caller describes it, with no more than `size` processes and no dimension below `dim_min`.
fn grid(
    ndims: c_int,
    dims: In<c_int>,
    periods: In<c_int>,
    size: u32,
    dim_min: c_int,
) -> Result<Cartesian, Fault> {
    if ndims < 0 {
        return Err(fault(MPI_ERR_DIMS, format_args!("argument ndims is negative ({ndims})")));
    }
    let (dims, periods) = (dims.to_vec("dims", ndims)?, periods.to_vec("periods", ndims)?);
    if let Some(dim) = dims.iter().find(|dim| **dim < dim_min) {
        return Err(fault(MPI_ERR_DIMS, format_args!("argument dims has {dim}, which is below {dim_min}")));
    }
    let dims: Vec<u32> = dims.into_iter().map(|dim| dim as u32).collect();
    let all = dims.iter().try_fold(1_u32, |all, dim| all.checked_mul(*dim));
    if all.is_none_or(|all| all > size) {
        return Err(fault(
            MPI_ERR_DIMS,
            format_args!(
                "a grid of the dimensions {dims:?} has more processes than the communicator ({size})"
            ),
        ));
    }
    Ok(Cartesian { dims, periods: periods.into_iter().map(|period| period != 0).collect() })
}

/// The host of each member, named by the rank of a member there. Collective.
fn hosts(comm: MPI_Comm, size: u32) -> Result<Vec<u32>, Fault> {
    let own = [color_of_host(comm)?];
    let mut all = vec![0; size as usize];
    let operation =
        Operation::Allgather { send: Some(memory_of(&own)?), recv: Parts::Uniform(memory_of_mut(&mut all)?) };
    run(comm, Mode::Blocking, operation, Staging::default())?;
    Ok(all)
}

/// Memory that a blocking operation reads.
fn memory_of<T>(values: &[T]) -> Result<Buffer, Fault> {
    elements(values.as_ptr().cast(), values.len() as MPI_Count, size_of::<T>(), "values")
}

/// Memory that a blocking operation writes.
fn memory_of_mut<T>(values: &mut [T]) -> Result<Buffer, Fault> {
    elements(values.as_mut_ptr().cast(), values.len() as MPI_Count, size_of::<T>(), "values")
}

/// `MPI_Cart_create`
fn cart_create(comm: MPI_Comm, grid: Cartesian, reorder: bool) -> Result<MPI_Comm, Fault> {
    let (group, _) = members(comm)?;
    let placed = match reorder {
        true => cartesian_placement(&grid, &hosts(comm, group.size())?[..grid.size() as usize]),
        false => None,
    };
    let ranks = placed.unwrap_or_else(|| (0..grid.size()).collect());
    create_of(comm, &group, ranks, Topology::Cartesian(grid))
}

/// A graph as the caller of `MPI_Graph_create` describes it, with no more than `size` nodes.
fn graph(nnodes: c_int, index: In<c_int>, edges: In<c_int>, size: u32) -> Result<Graph, Fault> {
    let node_count = u32::try_from(nnodes).ok().filter(|count| *count <= size).ok_or_else(|| {
        fault(
            MPI_ERR_ARG,
            format_args!("argument nnodes ({nnodes}) is negative or more than the {size} processes"),
        )
    })?;
    let mut ends = Vec::new();
    for end in index.to_vec("indx", nnodes)? {
        if end < ends.last().map_or(0, |last| *last as c_int) {
            return Err(fault(
                MPI_ERR_ARG,
                format_args!("argument indx decreases, or is negative, at {end}"),
            ));
        }
        ends.push(end as usize);
    }
    let edge_count = ends.last().map_or(0, |last| *last as c_int);
    let edges = edges.to_vec("edges", edge_count)?.into_iter();
    let edges = edges.map(|edge| match Rank::try_from(edge) {
        Ok(node) if node < node_count => Ok(node),
        _ => Err(fault(MPI_ERR_ARG, format_args!("argument edges has {edge}, which is no node of {nnodes}"))),
    });
    Ok(Graph { ends, edges: edges.collect::<Result<_, _>>()? })
}

/// Ranks and weights of edges, as the caller gives them. Without weights each weighs 1.
fn edges(
    count: c_int,
    (ranks, name): (In<c_int>, &str),
    weights: In<c_int>,
    size: u32,
) -> Result<Edges, Fault> {
    if count < 0 {
        return Err(fault(MPI_ERR_ARG, format_args!("the number of {name} is negative ({count})")));
    }
    let ranks = ranks.to_vec(name, count)?.into_iter();
    let ranks = ranks.map(|rank| rank_below(rank, size, name)).collect::<Result<Vec<_>, _>>()?;
    Ok(Edges { weights: weights_of(weights, count)?, ranks })
}

fn weights_of(weights: In<c_int>, count: c_int) -> Result<Vec<c_int>, Fault> {
    if weights.address() == MPI_UNWEIGHTED || count == 0 {
        return Ok(vec![1; count as usize]);
    }
    if weights.address() == MPI_WEIGHTS_EMPTY {
        return Err(fault(
            MPI_ERR_ARG,
            format_args!("the weights are MPI_WEIGHTS_EMPTY, but there are {count} edges"),
        ));
    }
    let weights = weights.to_vec("weights", count)?;
    match weights.iter().find(|weight| **weight < 0) {
        Some(weight) => Err(fault(MPI_ERR_ARG, format_args!("a weight is negative ({weight})"))),
        None => Ok(weights),
    }
}

/// The edges that a caller of `MPI_Dist_graph_create` gives: source, destination, weight.
fn given_edges(
    (n, sources, degrees, destinations): (c_int, In<c_int>, In<c_int>, In<c_int>),
    weights: In<c_int>,
    size: u32,
) -> Result<Vec<(Rank, Rank, c_int)>, Fault> {
    if n < 0 {
        return Err(fault(MPI_ERR_ARG, format_args!("argument n is negative ({n})")));
    }
    let (sources, degrees) = (sources.to_vec("sources", n)?, degrees.to_vec("degrees", n)?);
    let mut froms = Vec::new();
    for (source, degree) in sources.into_iter().zip(degrees) {
        let source = rank_below(source, size, "sources")?;
        let degree = usize::try_from(degree)
            .map_err(|_| fault(MPI_ERR_ARG, format_args!("argument degrees has the negative {degree}")))?;
        froms.extend(std::iter::repeat_n(source, degree));
    }
    let count = c_int::try_from(froms.len())
        .map_err(|_| fault(MPI_ERR_ARG, format_args!("argument degrees adds up to more than 2^31 - 1")))?;
    let Edges { ranks, weights } = edges(count, (destinations, "destinations"), weights, size)?;
    let both = froms.into_iter().zip(ranks).zip(weights);
    Ok(both.map(|((from, to), weight)| (from, to, weight)).collect())
}

/// An edge on its way to the processes that it touches: the other end, the weight, 1 where it ends at the
/// receiver.
type Touching = [c_int; 3];

/// The edges that touch this process, from those that all processes give. Collective. In the order of the
/// processes that gave them, and as these gave them.
fn touching(comm: MPI_Comm, size: u32, given: &[(Rank, Rank, c_int)]) -> Result<DistGraph, Fault> {
    let mut outgoing: Vec<Vec<Touching>> = vec![Vec::new(); size as usize];
    for (from, to, weight) in given {
        outgoing[*from as usize].push([*to as c_int, *weight, 0]);
        outgoing[*to as usize].push([*from as c_int, *weight, 1]);
    }
    let counts: Vec<u64> = outgoing.iter().map(|edges| edges.len() as u64).collect();
    let mut incoming_counts = vec![0_u64; size as usize];
    let exchange = Operation::Alltoall {
        send: Some(Parts::Uniform(memory_of(&counts)?)),
        recv: Parts::Uniform(memory_of_mut(&mut incoming_counts)?),
    };
    run(comm, Mode::Blocking, exchange, Staging::default())?;
    let mut incoming: Vec<Vec<Touching>> =
        incoming_counts.into_iter().map(|count| vec![[0; 3]; count as usize]).collect();
    let send = outgoing.iter().map(|edges| memory_of(edges)).collect::<Result<_, _>>()?;
    let recv = incoming.iter_mut().map(|edges| memory_of_mut(edges)).collect::<Result<_, _>>()?;
    let exchange = Operation::Alltoall { send: Some(Parts::Each(send)), recv: Parts::Each(recv) };
    run(comm, Mode::Blocking, exchange, Staging::default())?;
    let mut graph = DistGraph::default();
    for [other, weight, ends_here] in incoming.into_iter().flatten() {
        let list = if ends_here == 1 { &mut graph.sources } else { &mut graph.destinations };
        list.ranks.push(other as Rank);
        list.weights.push(weight);
    }
    Ok(graph)
}

/// Gives the first of some ranks and weights to the caller.
fn give_edges(
    edges: &Edges,
    count: c_int,
    (ranks, name): (Out<c_int>, &str),
    weights: Option<Out<c_int>>,
) -> Result<(), Fault> {
    let count = usize::try_from(count)
        .map_err(|_| fault(MPI_ERR_ARG, format_args!("the maximum of {name} is negative ({count})")))?
        .min(edges.ranks.len());
    ranks.set_all(name, &integers(&edges.ranks[..count]))?;
    weights.map_or(Ok(()), |weights| weights.set_all("weights", &edges.weights[..count]))
}

fn integers(ranks: &[Rank]) -> Vec<c_int> {
    ranks.iter().map(|rank| *rank as c_int).collect()
}

/// `what` of an array argument must be at least the number of dimensions.
fn check_room(what: &str, given: c_int, needed: usize) -> Result<(), Fault> {
    if usize::try_from(given).is_ok_and(|given| given >= needed) {
        return Ok(());
    }
    Err(fault(MPI_ERR_ARG, format_args!("argument {what} ({given}) is too small: there are {needed}")))
}

/// A rank, or `MPI_PROC_NULL`.
fn rank_or_null(rank: Option<Rank>) -> c_int {
    rank.map_or(MPI_PROC_NULL, |rank| rank as c_int)
}

fn comm_size(comm: MPI_Comm) -> Result<(u32, Rank), Fault> {
    let process = process()?;
    process.comms.get(comm, "comm").map(|comm: &Comm| (comm.size(), comm.rank()))
}

api! {
    /// MPI-5.0 §8.5.3
    fn MPI_Topo_test(comm: MPI_Comm, status: Out<c_int>) on comm {
        let kind = match process()?.comms.get(comm, "comm")?.topology.as_deref() {
            None => MPI_UNDEFINED,
            Some(Topology::Cartesian(_)) => MPI_CART,
            Some(Topology::Graph(_)) => MPI_GRAPH,
            Some(Topology::DistGraph(_)) => MPI_DIST_GRAPH,
        };
        status.set("status", kind)
    }

    /// MPI-5.0 §8.5.1. Processes beyond the grid get `MPI_COMM_NULL`; the grid has the first ones.
    fn MPI_Cart_create(
        comm_old: MPI_Comm,
        ndims: c_int,
        dims: In<c_int>,
        periods: In<c_int>,
        reorder: c_int,
        comm_cart: Out<MPI_Comm>,
    ) on comm_old {
        let (group, _) = members(comm_old)?;
        let grid = grid(ndims, dims, periods, group.size(), 1)?;
        comm_cart.set("comm_cart", cart_create(comm_old, grid, reorder != 0)?)
    }

    /// MPI-5.0 §8.5.7. Ranks in the dimensions that remain are in their order.
    fn MPI_Cart_sub(comm: MPI_Comm, remain_dims: In<c_int>, newcomm: Out<MPI_Comm>) on comm {
        let place = Place::of(comm)?;
        let grid = place.cartesian()?;
        let remains = remain_dims.to_vec("remain_dims", grid.dims.len() as c_int)?;
        let remains: Vec<bool> = remains.into_iter().map(|remains| remains != 0).collect();
        let (color, key, sub) = grid.sub(place.rank, &remains);
        let made = split(comm, Some(color), key as c_int)?;
        newcomm.set("newcomm", set_topology(made, Topology::Cartesian(sub))?)
    }

    /// MPI-5.0 §8.5.5
    fn MPI_Cartdim_get(comm: MPI_Comm, ndims: Out<c_int>) on comm {
        let place = Place::of(comm)?;
        ndims.set("ndims", place.cartesian()?.dims.len() as c_int)
    }

    /// MPI-5.0 §8.5.5
    fn MPI_Cart_get(
        comm: MPI_Comm,
        maxdims: c_int,
        dims: Out<c_int>,
        periods: Out<c_int>,
        coords: Out<c_int>,
    ) on comm {
        let place = Place::of(comm)?;
        let grid = place.cartesian()?;
        check_room("maxdims", maxdims, grid.dims.len())?;
        dims.set_all("dims", &integers(&grid.dims))?;
        let given: Vec<c_int> = grid.periods.iter().map(|period| c_int::from(*period)).collect();
        periods.set_all("periods", &given)?;
        coords.set_all("coords", &integers(&grid.coords(place.rank)))
    }

    /// Coordinates outside of a dimension that is not periodic are the caller's error.
    fn MPI_Cart_rank(comm: MPI_Comm, coords: In<c_int>, rank: Out<c_int>) on comm {
        let place = Place::of(comm)?;
        let grid = place.cartesian()?;
        let coords = coords.to_vec("coords", grid.dims.len() as c_int)?;
        let wide: Vec<i64> = coords.iter().map(|coord| i64::from(*coord)).collect();
        let found = grid.rank(&wide).map_err(|at| {
            let (coord, dim) = (coords[at], grid.dims[at]);
            fault(
                MPI_ERR_ARG,
                format_args!("argument coords has {coord} in dimension {at}, which has {dim} processes and no period"),
            )
        })?;
        rank.set("rank", found as c_int)
    }

    /// MPI-5.0 §8.5.5
    fn MPI_Cart_coords(comm: MPI_Comm, rank: c_int, maxdims: c_int, coords: Out<c_int>) on comm {
        let place = Place::of(comm)?;
        let grid = place.cartesian()?;
        let rank = place.check_rank(rank)?;
        check_room("maxdims", maxdims, grid.dims.len())?;
        coords.set_all("coords", &integers(&grid.coords(rank)))
    }

    /// MPI-5.0 §8.5.6
    fn MPI_Cart_shift(
        comm: MPI_Comm,
        direction: c_int,
        disp: c_int,
        rank_source: Out<c_int>,
        rank_dest: Out<c_int>,
    ) on comm {
        let place = Place::of(comm)?;
        let grid = place.cartesian()?;
        let count = grid.dims.len();
        let dimension = usize::try_from(direction).ok().filter(|direction| *direction < count).ok_or_else(|| {
            fault(MPI_ERR_DIMS, format_args!("argument direction ({direction}) is no dimension: there are {count}"))
        })?;
        let at = |distance| rank_or_null(grid.shifted(place.rank, dimension, distance));
        rank_source.set("rank_source", at(-i64::from(disp)))?;
        rank_dest.set("rank_dest", at(i64::from(disp)))
    }

    /// The place that `MPI_Cart_create` gives without reordering. Programs pass a dimension of 0, the
    /// quotient of a small number of processes: no process belongs to that grid.
    fn MPI_Cart_map(
        comm: MPI_Comm,
        ndims: c_int,
        dims: In<c_int>,
        periods: In<c_int>,
        newrank: Out<c_int>,
    ) on comm {
        let (size, rank) = comm_size(comm)?;
        let grid = grid(ndims, dims, periods, size, 0)?;
        newrank.set("newrank", if rank < grid.size() { rank as c_int } else { MPI_UNDEFINED })
    }

    /// MPI-5.0 §8.5.3. Processes beyond the graph get `MPI_COMM_NULL`.
    fn MPI_Graph_create(
        comm_old: MPI_Comm,
        nnodes: c_int,
        indx: In<c_int>,
        edges: In<c_int>,
        reorder: c_int,
        comm_graph: Out<MPI_Comm>,
    ) on comm_old {
        let _ = reorder;
        let (group, _) = members(comm_old)?;
        let graph = graph(nnodes, indx, edges, group.size())?;
        if nnodes == 0 {
            return comm_graph.set("comm_graph", MPI_COMM_NULL);
        }
        let made = create_of(comm_old, &group, 0..nnodes as Rank, Topology::Graph(graph))?;
        comm_graph.set("comm_graph", made)
    }

    /// MPI-5.0 §8.5.5
    fn MPI_Graphdims_get(comm: MPI_Comm, nnodes: Out<c_int>, nedges: Out<c_int>) on comm {
        let place = Place::of(comm)?;
        let graph = place.graph()?;
        nnodes.set("nnodes", graph.ends.len() as c_int)?;
        nedges.set("nedges", graph.edges.len() as c_int)
    }

    /// Arrays that are too short get the first elements.
    fn MPI_Graph_get(
        comm: MPI_Comm,
        maxindex: c_int,
        maxedges: c_int,
        indx: Out<c_int>,
        edges: Out<c_int>,
    ) on comm {
        let place = Place::of(comm)?;
        let graph = place.graph()?;
        let first = |name: &str, max: c_int, count: usize| {
            usize::try_from(max)
                .map(|max| max.min(count))
                .map_err(|_| fault(MPI_ERR_ARG, format_args!("argument {name} ({max}) is negative")))
        };
        let ends: Vec<c_int> = graph.ends.iter().map(|end| *end as c_int).collect();
        indx.set_all("indx", &ends[..first("maxindex", maxindex, ends.len())?])?;
        let count = first("maxedges", maxedges, graph.edges.len())?;
        edges.set_all("edges", &integers(&graph.edges[..count]))
    }

    /// MPI-5.0 §8.5.5
    fn MPI_Graph_neighbors_count(comm: MPI_Comm, rank: c_int, nneighbors: Out<c_int>) on comm {
        let place = Place::of(comm)?;
        let neighbors = place.graph()?.neighbors(place.check_rank(rank)?).unwrap_or_default();
        nneighbors.set("nneighbors", neighbors.len() as c_int)
    }

    /// An array that is too short gets the first neighbours.
    fn MPI_Graph_neighbors(comm: MPI_Comm, rank: c_int, maxneighbors: c_int, neighbors: Out<c_int>) on comm {
        let place = Place::of(comm)?;
        let found = place.graph()?.neighbors(place.check_rank(rank)?).unwrap_or_default();
        let count = usize::try_from(maxneighbors)
            .map_err(|_| fault(MPI_ERR_ARG, format_args!("argument maxneighbors ({maxneighbors}) is negative")))?
            .min(found.len());
        neighbors.set_all("neighbors", &integers(&found[..count]))
    }

    /// The place that `MPI_Graph_create` gives.
    fn MPI_Graph_map(
        comm: MPI_Comm,
        nnodes: c_int,
        indx: In<c_int>,
        edges: In<c_int>,
        newrank: Out<c_int>,
    ) on comm {
        let (size, rank) = comm_size(comm)?;
        let graph = graph(nnodes, indx, edges, size)?;
        let is_in = (rank as usize) < graph.ends.len();
        newrank.set("newrank", if is_in { rank as c_int } else { MPI_UNDEFINED })
    }

    /// MPI-5.0 §8.5.4. Each process names the edges that touch it.
    fn MPI_Dist_graph_create_adjacent(
        comm_old: MPI_Comm,
        indegree: c_int,
        sources: In<c_int>,
        sourceweights: In<c_int>,
        outdegree: c_int,
        destinations: In<c_int>,
        destweights: In<c_int>,
        info: MPI_Info,
        reorder: c_int,
        comm_dist_graph: Out<MPI_Comm>,
    ) on comm_old {
        let _ = reorder;
        let (group, _) = members(comm_old)?;
        crate::info::check(info)?;
        let is_unweighted = [sourceweights, destweights].map(|weights| weights.address() == MPI_UNWEIGHTED);
        if is_unweighted[0] != is_unweighted[1] {
            return Err(fault(
                MPI_ERR_ARG,
                format_args!("only one of sourceweights and destweights is MPI_UNWEIGHTED"),
            ));
        }
        let graph = DistGraph {
            sources: edges(indegree, (sources, "sources"), sourceweights, group.size())?,
            destinations: edges(outdegree, (destinations, "destinations"), destweights, group.size())?,
            is_weighted: !is_unweighted[0],
        };
        let made = create_of(comm_old, &group, 0..group.size(), Topology::DistGraph(graph))?;
        comm_dist_graph.set("comm_dist_graph", made)
    }

    /// MPI-5.0 §8.5.4. Any process names any edges; each learns of those that touch it.
    fn MPI_Dist_graph_create(
        comm_old: MPI_Comm,
        n: c_int,
        sources: In<c_int>,
        degrees: In<c_int>,
        destinations: In<c_int>,
        weights: In<c_int>,
        info: MPI_Info,
        reorder: c_int,
        comm_dist_graph: Out<MPI_Comm>,
    ) on comm_old {
        let _ = reorder;
        let (group, _) = members(comm_old)?;
        crate::info::check(info)?;
        let given = given_edges((n, sources, degrees, destinations), weights, group.size())?;
        let is_weighted = weights.address() != MPI_UNWEIGHTED;
        let graph = DistGraph { is_weighted, ..touching(comm_old, group.size(), &given)? };
        let made = create_of(comm_old, &group, 0..group.size(), Topology::DistGraph(graph))?;
        comm_dist_graph.set("comm_dist_graph", made)
    }

    /// MPI-5.0 §8.5.5
    fn MPI_Dist_graph_neighbors_count(
        comm: MPI_Comm,
        indegree: Out<c_int>,
        outdegree: Out<c_int>,
        weighted: Out<c_int>,
    ) on comm {
        let place = Place::of(comm)?;
        let graph = place.dist_graph()?;
        indegree.set("indegree", graph.sources.ranks.len() as c_int)?;
        outdegree.set("outdegree", graph.destinations.ranks.len() as c_int)?;
        weighted.set("weighted", c_int::from(graph.is_weighted))
    }

    /// Arrays that are too short get the first neighbours. A graph without weights leaves the arrays of
    /// weights as they are.
    fn MPI_Dist_graph_neighbors(
        comm: MPI_Comm,
        maxindegree: c_int,
        sources: Out<c_int>,
        sourceweights: Out<c_int>,
        maxoutdegree: c_int,
        destinations: Out<c_int>,
        destweights: Out<c_int>,
    ) on comm {
        let place = Place::of(comm)?;
        let graph = place.dist_graph()?;
        let wanted = |weights: Out<c_int>| {
            let is_wanted = graph.is_weighted && In::from(weights).address() != MPI_UNWEIGHTED;
            is_wanted.then_some(weights)
        };
        give_edges(&graph.sources, maxindegree, (sources, "sources"), wanted(sourceweights))?;
        give_edges(&graph.destinations, maxoutdegree, (destinations, "destinations"), wanted(destweights))
    }

    /// A process is on one host, the only hardware that is distinguished (see `MPI_Comm_split_type`).
    fn MPI_Get_hw_resource_info(hw_info: Out<MPI_Info>) {
        drop(process()?);
        let mut info = Info::default();
        info.put("mpi_shared_memory", "true");
        crate::info::give(info, "hw_info", hw_info)
    }

    /// Dimensions that are not 0 are kept. The others differ as little as can be: see `balanced_dimensions`.
    fn MPI_Dims_create(nnodes: c_int, ndims: c_int, dims: InOut<c_int>) {
        let given = In::from(dims).to_vec("dims", ndims)?;
        if nnodes < 1 {
            return Err(fault(MPI_ERR_ARG, format_args!("argument nnodes ({nnodes}) is not positive")));
        }
        if let Some(negative) = given.iter().find(|d| **d < 0) {
            return Err(fault(MPI_ERR_DIMS, format_args!("argument dims has the negative dimension {negative}")));
        }
        let fixed = given.iter().filter(|d| **d > 0).try_fold(1_i32, |product, d| product.checked_mul(*d));
        let free_count = given.iter().filter(|d| **d == 0).count();
        let rest = match fixed {
            Some(fixed) if nnodes % fixed == 0 && (free_count > 0 || fixed == nnodes) => nnodes / fixed,
            _ => {
                return Err(fault(
                    MPI_ERR_DIMS,
                    format_args!("the dimensions given in argument dims do not divide nnodes ({nnodes})"),
                ));
            }
        };
        let mut made = balanced_dimensions(rest as u32, free_count).into_iter();
        for (i, _) in given.iter().enumerate().filter(|(_, d)| **d == 0) {
            dims.set_at("dims", i, made.next().map_or(1, |d| d as c_int))?;
        }
        Ok(())
    }
}
