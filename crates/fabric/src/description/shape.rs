//! `[topology]`: from its keys to a [`Topology`] of the generators.

use crate::topology::{
    Complete, Dragonfly, FatTree, HyperX, Hypercube, Mesh, Ring, Tofu, Topology, Torus, Tree,
};

use super::reader::{Result, Section};

/// More switches than this do not go into a plan; the simulator takes more.
const SWITCHES_MAX: u64 = 1 << 20;

const KINDS: &[&str] = &[
    "ring",
    "mesh",
    "torus",
    "hypercube",
    "complete",
    "tree",
    "star",
    "fat-tree",
    "hyperx",
    "dragonfly",
    "tofu",
];

/// The generator `[topology]` asks for, checked.
pub(super) fn topology(s: &Section<'_>) -> Result<Topology> {
    let Some(kind) = s.choice("kind", KINDS)? else {
        return Err(s.error_here("does not say its kind", format!("add `kind = \"torus\"`: {KINDS:?}")));
    };
    let topology = match KINDS[kind] {
        "ring" => Topology::Ring(Ring { switch_count: switches(s)? }),
        "mesh" => Topology::Mesh(Mesh { extents: extents(s)? }),
        "torus" => {
            let twin_links = s.flag("twin_links")?.unwrap_or(false);
            Topology::Torus(Torus { extents: extents(s)?, twin_links })
        }
        "hypercube" => {
            let dimension_count = s.required_count("dimensions", 1..=20, "3")? as u32;
            Topology::Hypercube(Hypercube { dimension_count })
        }
        "complete" => Topology::Complete(Complete { switch_count: switches(s)? }),
        "tree" => {
            let arity = s.required_count("arity", 1..=4096, "2")? as u32;
            Topology::Tree(Tree { arity, switch_count: switches(s)? })
        }
        "star" => Topology::Tree(Tree::star(switches(s)? - 1)),
        "fat-tree" => fat_tree(s)?,
        "hyperx" => {
            let widths = s.counts("widths", 1..=4096)?.map_or(Vec::new(), |widths| widths.value);
            Topology::HyperX(HyperX { extents: extents(s)?, widths })
        }
        "dragonfly" => Topology::Dragonfly(Dragonfly {
            group_size: s.required_count("group_size", 1..=65_536, "4")? as u32,
            global_port_count: s.required_count("global_ports", 1..=65_536, "2")? as u32,
            group_count: s.required_count("groups", 1..=65_536, "9")? as u32,
        }),
        _ => tofu(s)?,
    };
    check(s, &topology)?;
    Ok(topology)
}

fn check(s: &Section<'_>, topology: &Topology) -> Result<()> {
    let generator = topology.generator();
    topology.check().map_err(|error| {
        s.error(
            "kind",
            error.to_string(),
            "correct the topology's numbers: docs/machine-file.md has each kind's",
        )
    })?;
    if generator.switch_count() > SWITCHES_MAX {
        let problem = format!("the topology has {} switches", generator.switch_count());
        return Err(s.error("kind", problem, format!("describe at most {SWITCHES_MAX}")));
    }
    Ok(())
}

fn switches(s: &Section<'_>) -> Result<u32> {
    Ok(s.required_count("switches", 1..=SWITCHES_MAX, "8")? as u32)
}

fn extents(s: &Section<'_>) -> Result<Vec<u32>> {
    Ok(s.required_counts("extents", 1..=SWITCHES_MAX, "[4, 2]")?.value)
}

fn fat_tree(s: &Section<'_>) -> Result<Topology> {
    if s.has("radix") {
        let radix = s.required_count("radix", 2..=4096, "48")? as u32;
        let levels = s.required_count("levels", 2..=16, "2")? as u32;
        let tree = FatTree::of_radix(radix, levels).map_err(|error| {
            s.error("radix", error.to_string(), "use an even number of ports, or `down` and `up`")
        })?;
        return Ok(Topology::FatTree(tree));
    }
    if let (false, Some(error)) = (s.has("down"), s.misspelt("radix")) {
        return Err(error);
    }
    let down = s.required_counts("down", 1..=4096, "[8] (or give `radix` and `levels`)")?.value;
    let up = s.required_counts("up", 1..=4096, "[4]")?.value;
    let widths = s.counts("widths", 1..=4096)?.map_or(Vec::new(), |widths| widths.value);
    Ok(Topology::FatTree(FatTree { down, up, widths }))
}

fn tofu(s: &Section<'_>) -> Result<Topology> {
    let extents = s.required_counts("unit_extents", 1..=4096, "[2, 2, 2]")?;
    let Ok(unit_extents) = <[u32; 3]>::try_from(extents.value.clone()) else {
        let problem = format!("{} numbers", extents.value.len());
        return Err(s.error_at("unit_extents", &extents, problem, "give three: units along x, y and z"));
    };
    Ok(Topology::Tofu(Tofu::new(unit_extents)))
}
