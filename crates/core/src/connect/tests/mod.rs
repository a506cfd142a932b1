//! Random worlds: two or three processes that dial each other over a network which loses, delays, cuts and
//! resets.

mod world;

use world::{HEALED_WITHIN, QUIET, World};

/// Runs a world of this seed to its end, and judges it.
fn judge(seed: u64, hostile: bool) -> Result<World, alloc::string::String> {
    let mut world = World::new(seed, hostile);
    world.run_until(world.heals_at());
    world.is_calm = true;
    world.run_until(world.heals_at() + HEALED_WITHIN);
    world.check_agreement()?;
    let count = world.handed_over_count;
    world.run_until(world.heals_at() + HEALED_WITHIN + QUIET);
    world.check_agreement()?;
    if world.handed_over_count != count {
        return Err(alloc::format!("connections are still made: {} more", world.handed_over_count - count));
    }
    world.check_leftovers()?;
    Ok(world)
}

#[test]
fn both_sides_agree_once_the_network_works_again() {
    let (mut breaks_count, mut duplicates_count, mut replaced_count) = (0, 0, 0);
    for seed in 0..3_000 {
        let world = judge(seed, false).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
        breaks_count += world.breaks_count;
        duplicates_count += world.duplicates_count;
        replaced_count += world.replaced_count;
    }
    // The worlds contain what they are meant to.
    assert!(breaks_count > 3_000, "{breaks_count} connections broke");
    assert!(duplicates_count > 300, "{duplicates_count} dials were refused as duplicates");
    assert!(replaced_count > 30, "{replaced_count} connections were replaced before their end was noticed");
}

#[test]
fn hostile_dials_are_bounded_and_block_no_honest_dial() {
    for seed in 0..500 {
        let world = judge(seed, true).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
        // A dial to a process that does not listen yet is refused, and not counted.
        assert!(world.hostile_count > 500, "seed {seed}: {} hostile dials", world.hostile_count);
        assert_eq!(world.pending_seen_max, world::PENDING_MAX, "seed {seed}: room for all, or for too many");
    }
}

#[test]
fn the_same_seed_makes_the_same_world() {
    let run = |seed| judge(seed, false).map(|world| (world.handed_over_count, world.events_count));
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}
