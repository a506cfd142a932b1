//! Fault runs: worlds without a bug hold every promise; worlds with one are caught.
//!
//! CI runs 2,000 seeds (`cargo xtask ci`); bugs in the engine's own source are tried by
//! `cargo xtask mutants`.

mod methods;

use ayatori_sim::fuzz::{Bug, Feature, Kind, Seeds, Violation, WorldReport, run_world};

const SEEDS: Seeds = Seeds { first: 0, count: if cfg!(debug_assertions) { 300 } else { 2_000 } };

fn run_worlds(
    seeds: Seeds,
    bug: Option<Bug>,
    thread_count: usize,
    watch: impl Fn(u64) + Sync,
) -> Result<WorldReport, Violation> {
    ayatori_sim::fuzz::run_worlds((Kind::Traffic, seeds), bug, thread_count, watch)
}

fn thread_count() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[test]
fn worlds_keep_every_promise() {
    let report = run_worlds(SEEDS, None, thread_count(), |_| {}).unwrap_or_else(|violation| {
        panic!("{violation}\nreplay: ayatori sim fuzz --seeds 1 --from {}", violation.seed);
    });
    let missed: Vec<Feature> = Feature::all().filter(|&feature| !report.has_covered(feature)).collect();
    assert!(missed.is_empty(), "no world has: {missed:?}");
}

#[test]
fn survivors_agree_shrink_and_go_on() {
    let seeds = Seeds { count: 5 * SEEDS.count, ..SEEDS };
    let run = ayatori_sim::fuzz::run_worlds((Kind::Survivors, seeds), None, thread_count(), |_| {});
    let report = run.unwrap_or_else(|violation| {
        panic!("{violation}\nreplay: ayatori sim fuzz --survivors --seeds 1 --from {}", violation.seed);
    });
    assert!(report.crash_count > 0 && report.outage_count > 0, "{report:?}");
}

#[test]
fn every_deliberate_bug_is_found_where_clean_worlds_pass() {
    std::panic::set_hook(Box::new(|_| {}));
    let kind_for = |bug: Bug| if bug == Bug::EarlyDecision { Kind::Survivors } else { Kind::Traffic };
    let is_missed = |&bug: &Bug| {
        ayatori_sim::fuzz::run_worlds((kind_for(bug), SEEDS), Some(bug), thread_count(), |_| {}).is_ok()
    };
    let missed: Vec<_> = Bug::ALL.into_iter().filter(is_missed).collect();
    let _ = std::panic::take_hook();
    assert!(missed.is_empty(), "not found: {missed:?}");
}

#[test]
fn the_same_seed_gives_the_same_world() {
    for seed in 0..20 {
        assert_eq!(run_world(Kind::Traffic, seed, None), run_world(Kind::Traffic, seed, None));
    }
}

/// Its last lock is granted before the world heals; what follows it was taken for the end.
#[test]
fn a_world_goes_on_while_windows_do() {
    run_world(Kind::Traffic, 2740, None).unwrap_or_else(|violation| panic!("{violation}"));
}

/// A process gives another up before there is a window, and ends.
#[test]
fn world_may_lose_a_member_before_its_window_is_made() {
    run_world(Kind::Traffic, 10843, None).unwrap_or_else(|violation| panic!("{violation}"));
}

/// A process that holds a lock gives the window's owner up, who hears nothing of it and waits for nothing;
/// a third waits for the lock.
#[test]
fn lock_of_a_member_that_gave_its_window_up_becomes_free() {
    run_world(Kind::Traffic, 18421, None).unwrap_or_else(|violation| panic!("{violation}"));
}

/// Two give each other up before the world begins; a third waits for one of them, who answers.
#[test]
fn world_begins_though_a_member_polls_for_another_for_ever() {
    run_world(Kind::Traffic, 20764, None).unwrap_or_else(|violation| panic!("{violation}"));
}

/// A round passes more time than the world has, and only then the last part of a channel is made ready.
#[test]
fn world_goes_on_after_its_time_while_programs_begin_work() {
    run_world(Kind::Traffic, 8992, None).unwrap_or_else(|violation| panic!("{violation}"));
}

/// An origin ends its access when the next epoch, another's, has begun: its put was looked for there.
#[test]
fn a_put_is_looked_for_in_the_window_that_it_went_to() {
    run_world(Kind::Traffic, 16838, None).unwrap_or_else(|violation| panic!("{violation}"));
}

/// Units come by two rails, each packet in parts, and the one that is whole first is damaged.
#[test]
fn damage_of_one_packet_is_not_left_in_another() {
    run_world(Kind::Traffic, 62047, None).unwrap_or_else(|violation| panic!("{violation}"));
}

/// A rail that returns late passes more time than the world has, and steps begin after it.
#[test]
fn a_step_that_begins_after_the_time_of_a_world_has_its_own() {
    run_world(Kind::Traffic, 81851, None).unwrap_or_else(|violation| panic!("{violation}"));
}

/// Its message is long, and is got by the window's owner, who hears of the loss before the get ends.
#[test]
fn lock_is_not_granted_to_a_lost_member() {
    run_world(Kind::Traffic, 96457, None).unwrap_or_else(|violation| panic!("{violation}"));
}

/// The same in every build: `cargo xtask fuzz` compares a release build with it.
#[test]
fn worlds_give_the_committed_digest() {
    let (count, digest) = include_str!("golden.txt").trim().split_once(" worlds from seed 0: ").unwrap();
    let seeds = Seeds { first: 0, count: count.parse().unwrap() };
    let report =
        run_worlds(seeds, None, thread_count(), |_| {}).unwrap_or_else(|violation| panic!("{violation}"));
    let now = format!("{:016x}", report.digest);
    assert_eq!(
        now, digest,
        "what processes do in these worlds has changed; if that is meant, write {now} into golden.txt"
    );
}

#[test]
fn results_of_worlds_do_not_depend_on_the_thread_count() {
    let seeds = Seeds { first: 100, count: 60 };
    let alone = run_worlds(seeds, None, 1, |_| {});
    assert_eq!(alone, run_worlds(seeds, None, 3, |_| {}));
    let alone = run_worlds(seeds, Some(Bug::LostFin), 1, |_| {});
    assert!(alone.is_err());
    assert_eq!(alone, run_worlds(seeds, Some(Bug::LostFin), 3, |_| {}));
}
