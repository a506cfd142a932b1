//! Where the page draws the switches: by the topology's coordinates where it has any, in layers above the
//! hosts where the links allow that, else on a circle.

use std::collections::VecDeque;
use std::f64::consts::TAU;

use serde::Serialize;

use crate::description::Machine;
use crate::plan::Plan;
use crate::topology::Topology;

/// Wider or higher than this, the picture of a grid or of layers is stretched: it has to fit a screen.
const ASPECT_MAX: f64 = 2.0;

/// Places of switches, and the frames around groups of them.
pub(super) struct Layout {
    /// By switch. The longer side of the picture is 1.
    pub(super) places: Vec<(f64, f64)>,
    pub(super) groups: Vec<Group>,
}

/// Switches that belong together, inside a circle.
#[derive(Serialize)]
pub(super) struct Group {
    name: String,
    x: f64,
    y: f64,
    radius: f64,
}

/// Draws the plan's switches.
pub(super) fn layout(plan: &Plan, machine: &Machine) -> Layout {
    let count = plan.switches.len();
    let graph = &machine.graph;
    let coordinates: Vec<&[u32]> = if graph.switch_count() == count {
        graph.switches().map(|id| graph.coordinates(id)).collect()
    } else {
        Vec::new()
    };
    if let (Some(Topology::Dragonfly(_)), false) = (&machine.topology, coordinates.is_empty()) {
        return in_groups(&coordinates);
    }
    let dimension_count = coordinates.first().map_or(0, |own| own.len());
    let is_grid = dimension_count >= 2
        && !matches!(machine.topology, Some(Topology::FatTree(_) | Topology::Tree(_)))
        && coordinates.iter().all(|own| own.len() == dimension_count);
    let places = if is_grid {
        scaled(&on_grid(&coordinates, dimension_count), ASPECT_MAX)
    } else if let Some(depths) = levels(plan).or_else(|| tree_levels(plan)) {
        scaled(&on_layers(&depths), ASPECT_MAX)
    } else {
        scaled(&on_circle(count), 1.0)
    };
    Layout { places, groups: Vec::new() }
}

/// Dimensions 0, 2, 4 … go right, 1, 3, 5 … down; each further one in steps as wide as all before.
fn on_grid(coordinates: &[&[u32]], dimension_count: usize) -> Vec<(f64, f64)> {
    let mut steps = vec![1.0; dimension_count];
    for dimension in 2..dimension_count {
        let before = dimension - 2;
        let extent = coordinates.iter().map(|own| own[before]).max().unwrap_or(0) + 1;
        steps[dimension] = steps[before] * (f64::from(extent) + 0.6);
    }
    let along = |own: &[u32], first: usize| -> f64 {
        (first..dimension_count)
            .step_by(2)
            .map(|dimension| f64::from(own[dimension]) * steps[dimension])
            .sum()
    };
    coordinates.iter().map(|own| (along(own, 0), along(own, 1))).collect()
}

/// A dragonfly: groups on a circle, the switches of each on a circle of their own. Coordinates are (place in
/// group, group).
fn in_groups(coordinates: &[&[u32]]) -> Layout {
    let size = coordinates.iter().map(|own| own[0]).max().unwrap_or(0) + 1;
    let group_count = coordinates.iter().map(|own| own[1]).max().unwrap_or(0) + 1;
    // Circles that nearly touch.
    let radius = (TAU / 2.0 / f64::from(group_count.max(2))).sin() * 0.8;
    let middle = |group: u32| on_circle_at(group, group_count);
    let raw = coordinates.iter().map(|own| {
        let (x, y) = middle(own[1]);
        // The first switch of a group on the side of the middle of the picture.
        let turn = f64::from(own[1]) / f64::from(group_count) + 0.5;
        let angle = TAU * (f64::from(own[0]) / f64::from(size) + turn);
        let inner = if size > 1 { radius * 0.72 } else { 0.0 };
        (x + inner * angle.sin(), y - inner * angle.cos())
    });
    // The circles' corners count, or a frame would stand over the edge.
    let corners = (0..group_count).flat_map(|group| {
        let (x, y) = middle(group);
        [(x - radius, y - radius), (x + radius, y + radius)]
    });
    let all: Vec<(f64, f64)> = raw.chain(corners).collect();
    let factor = 1.0 / longer_side(&all);
    let mut places = scaled(&all, 1.0);
    let corners = places.split_off(coordinates.len());
    let groups = corners.chunks(2).enumerate().map(|(group, both)| Group {
        name: format!("group {group}"),
        x: rounded((both[0].0 + both[1].0) / 2.0),
        y: rounded((both[0].1 + both[1].1) / 2.0),
        radius: rounded(radius * factor),
    });
    Layout { groups: groups.collect(), places }
}

/// By switch its level under the highest, where links join neighbouring levels only and hosts are at the
/// lowest: a leaf and spine network, a fat tree.
fn levels(plan: &Plan) -> Option<Vec<usize>> {
    let mut has_hosts = vec![false; plan.switches.len()];
    let attachments = plan.hosts.iter().flat_map(|host| &host.attachments);
    attachments.for_each(|attachment| has_hosts[attachment.switch.index()] = true);
    if has_hosts.iter().all(|&has| has) {
        return None;
    }
    let sources = (0..has_hosts.len()).filter(|&at| has_hosts[at]);
    let heights = distances(plan, sources);
    let is_layered = plan.links.iter().all(|link| {
        let [a, b] = link.ends.each_ref().map(|end| heights[end.switch.index()]);
        a.abs_diff(b) == 1
    });
    let highest = heights.iter().copied().max().filter(|&highest| is_layered && highest < usize::MAX)?;
    Some(heights.iter().map(|height| highest - height).collect())
}

/// By switch its distance from the middle, where the links are a tree.
fn tree_levels(plan: &Plan) -> Option<Vec<usize>> {
    let count = plan.switches.len();
    if plan.links.len() + 1 != count || count < 3 {
        return None;
    }
    let depth_from = |root: usize| distances(plan, std::iter::once(root));
    let root = (0..count).min_by_key(|&root| depth_from(root).into_iter().max())?;
    Some(depth_from(root)).filter(|depths| !depths.contains(&usize::MAX))
}

/// Links to the nearest of `from`.
fn distances(plan: &Plan, from: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut next_to = vec![Vec::new(); plan.switches.len()];
    for link in &plan.links {
        let [a, b] = link.ends.each_ref().map(|end| end.switch.index());
        next_to[a].push(b);
        next_to[b].push(a);
    }
    let mut distances = vec![usize::MAX; plan.switches.len()];
    let mut queue = VecDeque::new();
    for root in from {
        distances[root] = 0;
        queue.push_back(root);
    }
    while let Some(at) = queue.pop_front() {
        for &to in &next_to[at] {
            if distances[to] == usize::MAX {
                distances[to] = distances[at] + 1;
                queue.push_back(to);
            }
        }
    }
    distances
}

/// One layer below the other, each spread over the whole width.
fn on_layers(depths: &[usize]) -> Vec<(f64, f64)> {
    let layer_count = depths.iter().max().map_or(0, |depth| depth + 1);
    let mut widths = vec![0_u32; layer_count];
    let places: Vec<(u32, usize)> = depths
        .iter()
        .map(|&depth| {
            widths[depth] += 1;
            (widths[depth] - 1, depth)
        })
        .collect();
    let widest = widths.iter().copied().max().unwrap_or(1);
    // Layers half as far apart as the picture is wide, were there two of them.
    let height = f64::from(widest) / (2.0 * layer_count.saturating_sub(1).max(1) as f64);
    let across = |(place, depth): (u32, usize)| {
        (f64::from(place) + 0.5) * f64::from(widest) / f64::from(widths[depth])
    };
    places.into_iter().map(|own| (across(own), own.1 as f64 * height.max(1.0))).collect()
}

fn on_circle(count: usize) -> Vec<(f64, f64)> {
    (0..count as u32).map(|index| on_circle_at(index, count as u32)).collect()
}

/// From the top, clockwise; the radius is 1.
fn on_circle_at(index: u32, count: u32) -> (f64, f64) {
    let angle = TAU * f64::from(index) / f64::from(count.max(1));
    (angle.sin(), -angle.cos())
}

fn range(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let low = values.clone().fold(f64::INFINITY, f64::min);
    (low, values.fold(f64::NEG_INFINITY, f64::max) - low)
}

fn longer_side(raw: &[(f64, f64)]) -> f64 {
    let width = range(raw.iter().map(|place| place.0)).1;
    let side = width.max(range(raw.iter().map(|place| place.1)).1);
    if side > 0.0 { side } else { 1.0 }
}

/// From 0 on; the longer side is 1, the shorter at least `1 / aspect_max` where there is one.
fn scaled(raw: &[(f64, f64)], aspect_max: f64) -> Vec<(f64, f64)> {
    let (x_low, width) = range(raw.iter().map(|place| place.0));
    let (y_low, height) = range(raw.iter().map(|place| place.1));
    let side = longer_side(raw);
    let factor = |own: f64| {
        let narrow = if aspect_max > 1.0 { side / aspect_max } else { 0.0 };
        if own > 0.0 { own.max(narrow) / own / side } else { 1.0 / side }
    };
    let (x_factor, y_factor) = (factor(width), factor(height));
    raw.iter().map(|&(x, y)| (rounded((x - x_low) * x_factor), rounded((y - y_low) * y_factor))).collect()
}

/// Four digits are finer than a pixel.
fn rounded(value: f64) -> f64 {
    (value * 10_000.0).round() / 10_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(topology: &str) -> (Machine, Layout) {
        // Places do not depend on routes: none are searched for that are balanced.
        let text = format!(
            "name = \"m\"\n[switch_models.s]\nports = 64\nrate_gbps = 1\n[host_models.h]\n\
             nic = [{{ name = \"eth0\", rate_gbps = 1 }}]\n[topology]\n{topology}\nswitch_model = \"s\"\n\
             [hosts]\nmodel = \"h\"\nper_switch = 1\n[plan]\nvlans = \"per-source\"\n"
        );
        let machine = Machine::parse("m.toml", &text).expect("a machine");
        let plan = crate::vlan::plan(&machine).expect("a plan");
        let layout = layout(&plan, &machine);
        (machine, layout)
    }

    fn are_apart(places: &[(f64, f64)]) {
        for (index, place) in places.iter().enumerate() {
            assert!((0.0..=1.0).contains(&place.0) && (0.0..=1.0).contains(&place.1), "{place:?}");
            assert!(!places[..index].contains(place), "two switches at {place:?}");
        }
    }

    #[test]
    fn switches_are_drawn_in_the_unit_square_and_apart() {
        for topology in [
            "kind = \"torus\"\nextents = [4, 2, 3]",
            "kind = \"mesh\"\nextents = [16, 2]",
            "kind = \"ring\"\nswitches = 5",
            "kind = \"hypercube\"\ndimensions = 4",
            "kind = \"complete\"\nswitches = 4",
            "kind = \"star\"\nswitches = 1",
            "kind = \"dragonfly\"\ngroup_size = 4\nglobal_ports = 2\ngroups = 9",
            "kind = \"fat-tree\"\ndown = [4]\nup = [2]",
        ] {
            let (machine, layout) = drawn(topology);
            assert_eq!(layout.places.len(), machine.graph.switch_count(), "{topology}");
            are_apart(&layout.places);
        }
    }

    #[test]
    fn dragonfly_groups_are_disjoint_circles_of_their_switches() {
        let (_, layout) = drawn("kind = \"dragonfly\"\ngroup_size = 4\nglobal_ports = 2\ngroups = 9");
        assert_eq!(layout.groups.len(), 9);
        let far = |a: (f64, f64), b: (f64, f64)| (a.0 - b.0).hypot(a.1 - b.1);
        for (switch, place) in layout.places.iter().enumerate() {
            for (number, group) in layout.groups.iter().enumerate() {
                let is_inside = far(*place, (group.x, group.y)) < group.radius;
                assert_eq!(is_inside, number == switch / 4, "switch {switch} and group {number}");
            }
        }
    }

    #[test]
    fn a_fat_tree_stands_in_layers_with_the_hosts_below() {
        let (machine, layout) = drawn("kind = \"fat-tree\"\ndown = [4]\nup = [2]");
        let hosts = machine.attachment_counts();
        let heights = |has_hosts: bool| {
            let of = layout.places.iter().zip(&hosts).filter(move |(_, count)| (**count > 0) == has_hosts);
            let mut heights: Vec<String> = of.map(|(place, _)| place.1.to_string()).collect();
            heights.dedup();
            heights
        };
        let (leaves, spines) = (heights(true), heights(false));
        assert_eq!((leaves.len(), spines.len()), (1, 1), "{leaves:?} {spines:?}");
        assert!(leaves[0].parse::<f64>().unwrap() > spines[0].parse::<f64>().unwrap());
    }

    /// Places in hundredths of the longer side.
    fn hundredths(layout: &Layout) -> Vec<(i64, i64)> {
        let of = |value: f64| (value * 100.0).round() as i64;
        layout.places.iter().map(|&(x, y)| (of(x), of(y))).collect()
    }

    #[test]
    fn a_grid_is_drawn_by_its_coordinates() {
        let places = |topology: &str| hundredths(&drawn(topology).1);
        assert_eq!(
            places("kind = \"mesh\"\nextents = [3, 2]"),
            [(0, 0), (50, 0), (100, 0), (0, 50), (50, 50), (100, 50)]
        );
        // One row of 16 below the other, and not closer than half of what it is wide.
        let long = places("kind = \"mesh\"\nextents = [16, 2]");
        assert_eq!((long[0], long[15], long[16], long[31]), ((0, 0), (100, 0), (0, 50), (100, 50)));
        let high = places("kind = \"mesh\"\nextents = [2, 5]");
        assert_eq!((high[0], high[1], high[9]), ((0, 0), (50, 0), (50, 100)));
        // The third dimension goes right, too, behind a gap: at 0, 1, 2 and at 3.6, 4.6, 5.6.
        let deep = places("kind = \"mesh\"\nextents = [3, 2, 2]");
        assert_eq!(deep[..4], [(0, 0), (18, 0), (36, 0), (0, 50)]);
        assert_eq!(deep[6..10], [(64, 0), (82, 0), (100, 0), (64, 50)]);
        // The fourth goes down behind a gap.
        let cube = places("kind = \"hypercube\"\ndimensions = 4");
        assert_eq!(cube[..4], [(0, 0), (28, 0), (0, 28), (28, 28)]);
        assert_eq!((cube[4], cube[8], cube[15]), ((72, 0), (0, 72), (100, 100)));
    }

    #[test]
    fn others_stand_on_a_circle_or_in_layers() {
        let places = |topology: &str| hundredths(&drawn(topology).1);
        // From the top, clockwise.
        assert_eq!(places("kind = \"complete\"\nswitches = 4"), [(50, 0), (100, 50), (50, 100), (0, 50)]);
        assert_eq!(places("kind = \"complete\"\nswitches = 2"), [(0, 0), (0, 100)]);
        assert_eq!(places("kind = \"tree\"\narity = 1\nswitches = 1"), [(0, 0)]);
        // A circle of three is less high than wide, and not stretched.
        assert_eq!(places("kind = \"complete\"\nswitches = 3"), [(50, 0), (100, 87), (0, 87)]);
        // Leaves with hosts, under spines that are spread over the same width.
        let leaves = [(0, 67), (33, 67), (67, 67), (100, 67)];
        let tree = places("kind = \"fat-tree\"\ndown = [4]\nup = [2]");
        assert_eq!((&tree[..4], &tree[4..]), (&leaves[..], &[(17, 0), (83, 0)][..]));
        let tree = places("kind = \"fat-tree\"\nradix = 4\nlevels = 3");
        assert_eq!((tree[0], tree[7], tree[8]), ((0, 57), (100, 57), (0, 29)));
        assert_eq!((tree[16], tree[19]), ((7, 0), (93, 0)));
        // A tree hangs from its middle; a line is a tree.
        assert_eq!(
            places("kind = \"star\"\nswitches = 5"),
            [(50, 0), (0, 67), (33, 67), (67, 67), (100, 67)]
        );
        assert_eq!(
            places("kind = \"tree\"\narity = 1\nswitches = 5"),
            [(0, 100), (0, 50), (25, 0), (50, 50), (50, 100)]
        );
        assert_eq!(places("kind = \"tree\"\narity = 1\nswitches = 3"), [(0, 100), (50, 0), (100, 100)]);
    }

    /// A machine of listed switches, hosts at the first two.
    fn joined(links: &[&str]) -> Vec<(i64, i64)> {
        let mut text = "name = \"m\"\n[switch_models.s]\nports = 8\nrate_gbps = 1\n[host_models.h]\n\
                        nic = [{ name = \"eth0\", rate_gbps = 1 }]\n[hosts]\nmodel = \"h\"\n"
            .to_owned();
        for (name, hosts) in [("a", 1), ("b", 1), ("x", 0), ("y", 0)] {
            text += &format!("[[switch]]\nname = \"{name}\"\nmodel = \"s\"\nhosts = {hosts}\n");
        }
        let mut free = std::collections::BTreeMap::new();
        for link in links {
            let ends = link.split('-').map(|name| {
                let port = free.entry(name).or_insert(1);
                *port += 1;
                format!("{name}:{port}")
            });
            let [from, to] = <[String; 2]>::try_from(ends.collect::<Vec<_>>()).unwrap();
            text += &format!("[[cable]]\nfrom = \"{from}\"\nto = \"{to}\"\n");
        }
        let machine = Machine::parse("m.toml", &text).unwrap_or_else(|error| panic!("{error}"));
        let plan = crate::vlan::plan(&machine).expect("a plan");
        hundredths(&layout(&plan, &machine))
    }

    #[test]
    fn layers_are_drawn_only_where_every_link_joins_two_of_them() {
        let two_layers = [(0, 100), (100, 100), (0, 0), (100, 0)];
        assert_eq!(joined(&["a-x", "a-y", "b-x", "b-y"]), two_layers);
        let circle = [(50, 0), (100, 50), (50, 100), (0, 50)];
        assert_eq!(joined(&["a-x", "a-y", "b-x", "b-y", "x-y"]), circle);
        assert_eq!(joined(&["a-x", "a-y", "b-x", "b-y", "a-b"]), circle);
        // A line whose hosts are in its middle, which is on top: x under a, y under b.
        assert_eq!(joined(&["a-b", "a-x", "b-y"]), [(25, 0), (0, 50), (50, 50), (25, 100)]);
    }

    #[test]
    fn groups_of_a_dragonfly_face_the_middle() {
        for (size, global_ports, count) in [(4, 2, 5), (2, 1, 3), (3, 2, 4), (1, 4, 5)] {
            let (_, layout) = drawn(&format!(
                "kind = \"dragonfly\"\ngroup_size = {size}\nglobal_ports = {global_ports}\ngroups = {count}"
            ));
            let groups = &layout.groups;
            let names: Vec<String> = (0..count).map(|group| format!("group {group}")).collect();
            assert!(groups.iter().map(|group| &group.name).eq(&names));
            // Circles fill the picture and do not touch each other.
            let low = groups.iter().map(|group| (group.x - group.radius).min(group.y - group.radius));
            let high = groups.iter().map(|group| (group.x + group.radius).max(group.y + group.radius));
            let [low, high] = [low.fold(1.0, f64::min), high.fold(0.0, f64::max)];
            assert!(low.abs() < 1e-3 && (high - 1.0).abs() < 1e-3, "{low} to {high}");
            let middle = |of: fn(&Group) -> f64| groups.iter().map(of).sum::<f64>() / groups.len() as f64;
            let (x, y) = (middle(|group| group.x), middle(|group| group.y));
            for (number, group) in groups.iter().enumerate() {
                let next = &groups[(number + 1) % groups.len()];
                let apart = (group.x - next.x).hypot(group.y - next.y);
                assert!((2.0 * group.radius / apart - 0.8).abs() < 1e-2, "{apart}");
                let members = &layout.places[number * size..][..size];
                let angle = |&(to_x, to_y): &(f64, f64)| (to_x - group.x).atan2(group.y - to_y);
                let inner = if size > 1 { 0.72 * group.radius } else { 0.0 };
                for (place, member) in members.iter().enumerate() {
                    let far = (member.0 - group.x).hypot(member.1 - group.y);
                    assert!((far - inner).abs() < 1e-3, "{far}");
                    let turned = angle(member) - angle(&(x, y)) - TAU * place as f64 / size as f64;
                    let turned = turned.rem_euclid(TAU);
                    assert!(size == 1 || turned.min(TAU - turned) < 0.02, "{turned}");
                }
            }
        }
    }
}
