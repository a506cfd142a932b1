use super::*;
use crate::group::Group;
use alloc::collections::VecDeque;
use alloc::vec;
use ayatori_random::Random;
use proptest::prelude::*;

fn table(first: u32, count: u32) -> Table {
    let member = |process| Member {
        process: ProcessId(process),
        world: u64::from(first) << 32,
        card: vec![process as u8; process as usize % 50],
    };
    Table {
        token: [first as u8; TOKEN_BYTES],
        leader: count - 1,
        members: (first..first + count).map(member).collect(),
    }
}

/// One side, and the bytes on their way to it.
struct Side {
    machine: Introduction,
    inbox: VecDeque<u8>,
    is_cut: bool,
    /// The owner's answer, and whether it has been given.
    agrees: bool,
    has_agreed: bool,
}

/// Two leaders, a stream that cuts bytes anywhere and may break; what is on its way when it breaks may or may
/// not arrive.
fn world(seed: u64) -> [Side; 2] {
    let mut random = Random::new(seed);
    let may_break = random.below(2) == 0;
    let mut sides =
        [table(0, 1 + random.below(4) as u32), table(100, 1 + random.below(4) as u32)].map(|own| {
            let (machine, inbox) = (Introduction::new(&own), VecDeque::new());
            Side { machine, inbox, is_cut: false, agrees: random.below(4) > 0, has_agreed: false }
        });
    let mut idle = 0;
    while idle < 20 {
        let at = random.below(2) as usize;
        let bytes = sides[at].machine.poll_transmit();
        let mut worked = !bytes.is_empty();
        if !sides[at].is_cut {
            sides[1 - at].inbox.extend(bytes);
        }
        let side = &mut sides[at];
        let count = (random.below(40) as usize).min(side.inbox.len());
        if count > 0 {
            let bytes: Vec<u8> = side.inbox.drain(..count).collect();
            side.machine.handle_bytes(&bytes);
            worked = true;
        } else if side.is_cut && side.inbox.is_empty() {
            side.machine.handle_closed();
        }
        if side.machine.stage() == Stage::Judging && random.below(3) == 0 {
            worked = true;
            if side.agrees {
                side.machine.accept();
                side.has_agreed = true;
            } else {
                side.machine.refuse(17);
            }
        }
        let judges = side.machine.stage() == Stage::Judging;
        if may_break && random.below(30) == 0 {
            let lost = random.below(2) == 0;
            for side in &mut sides {
                side.is_cut = true;
                if lost {
                    side.inbox.clear();
                }
            }
        }
        idle = if worked || judges || sides.iter().any(|side| !side.inbox.is_empty()) { 0 } else { idle + 1 };
    }
    sides
}

#[test]
fn made_side_knows_that_both_sides_have_agreed() {
    let mut made = [0; 3];
    for seed in 0..20_000 {
        let sides = world(seed);
        let stages = [sides[0].machine.stage(), sides[1].machine.stage()];
        let made_count = stages.iter().filter(|stage| **stage == Stage::Made).count();
        made[made_count] += 1;
        for at in 0..2 {
            match stages[at] {
                Stage::Made => {
                    assert!(sides.iter().all(|side| side.has_agreed), "seed {seed}");
                    let first = sides[at].machine.others().unwrap().members[0].process;
                    assert_eq!(first, ProcessId(if at == 0 { 100 } else { 0 }), "seed {seed}");
                }
                Stage::Failed(Failure::Refused(code)) => assert!(!sides[1 - at].agrees && code == 17),
                Stage::Failed(Failure::Withdrawn) => assert!(!sides[at].agrees),
                Stage::Failed(Failure::Closed) => assert!(sides[at].is_cut, "seed {seed}"),
                other => panic!("seed {seed}: side {at} ends as {other:?}"),
            }
        }
        let is_whole = sides.iter().all(|side| side.agrees && !side.is_cut);
        assert!(!is_whole || made_count == 2, "seed {seed}: {stages:?}");
    }
    // All three ends happen, or this test shows nothing.
    assert!(made.iter().all(|count| *count > 0), "{made:?}");
}

#[test]
fn words_out_of_turn_end_it() {
    let fresh = || Introduction::new(&table(0, 2));
    let frame = |kind: u8, body: &[u8]| {
        let mut bytes = (body.len() as u32 + 1).to_le_bytes().to_vec();
        bytes.push(kind);
        bytes.extend(body);
        bytes
    };
    let good = frame(TABLE, &table(9, 1).emit());
    let mut one = fresh();
    one.handle_bytes(&good);
    assert_eq!(one.stage(), Stage::Judging);
    one.handle_bytes(&good);
    assert!(matches!(one.stage(), Stage::Failed(Failure::Nonsense(_))));
    for bad in [
        frame(READY, &[]),
        frame(9, &[]),
        frame(TABLE, &[0; 10]),
        frame(REFUSED, &[1]),
        vec![0; 4],
        vec![0xff; 8],
    ] {
        let mut one = fresh();
        one.handle_bytes(&bad);
        assert!(matches!(one.stage(), Stage::Failed(Failure::Nonsense(_))), "{bad:?}");
        one.accept();
        assert!(matches!(one.stage(), Stage::Failed(_)));
    }
}

#[test]
fn bytes_behind_the_last_message_change_nothing() {
    let mut one = Introduction::new(&table(0, 2));
    let mut other = Introduction::new(&table(9, 1));
    one.handle_bytes(&other.poll_transmit());
    one.accept();
    other.handle_bytes(&one.poll_transmit());
    other.accept();
    let mut last = other.poll_transmit();
    last.extend([1, 0, 0, 0, READY]);
    one.handle_bytes(&last);
    assert_eq!((one.stage(), other.stage()), (Stage::Made, Stage::Made));
    one.handle_bytes(&[1, 0, 0, 0, READY]);
    assert_eq!(one.stage(), Stage::Made);
}

#[test]
fn what_is_at_its_limit_is_taken_and_no_more() {
    let of = |change: &dyn Fn(&mut Table)| {
        let mut table = table(0, 3);
        change(&mut table);
        Table::parse(&table.emit()) == Some(table)
    };
    assert!(of(&|table| table.members[1].process = ProcessId(i32::MAX as u32)));
    assert!(!of(&|table| table.members[1].process = ProcessId(1 << 31)));
    assert!(of(&|table| table.members[2].card = vec![7; CARD_BYTES_MAX]));
    assert!(!of(&|table| table.members[2].card = vec![7; CARD_BYTES_MAX + 1]));
    assert!(of(&|table| table.members.iter_mut().for_each(|member| member.card.clear())));
    assert!(of(&|table| table.leader = 2) && !of(&|table| table.leader = 3));
    // As many members as there are bytes for, and not one more.
    let mut bytes = table(0, 3).emit();
    let count = TOKEN_BYTES + 4;
    bytes[count] = 4;
    assert_eq!(Table::parse(&bytes), None);
    bytes[count..count + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(Table::parse(&bytes), None);
    // The length of a message comes first.
    for (length, is_waited_for) in
        [(TABLE_BYTES_MAX, true), (TABLE_BYTES_MAX + 1, false), (1, true), (0, false)]
    {
        let mut one = Introduction::new(&table(0, 1));
        one.handle_bytes(&(length as u32).to_le_bytes());
        assert_eq!(one.stage() == Stage::Telling, is_waited_for, "{length}");
    }
}

proptest! {
    #[test]
    fn parse_undoes_emit(first in 0u32..1 << 30, count in 1u32..20) {
        let table = table(first, count);
        prop_assert_eq!(Table::parse(&table.emit()), Some(table));
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut one = Introduction::new(&table(0, 1));
        one.handle_bytes(&bytes);
        let _ = Table::parse(&bytes);
    }
}

#[test]
fn a_group_of_two_worlds_is_one_like_any_other() {
    let members = [ProcessId(5), ProcessId(1 << 30), ProcessId(6)];
    let group = Group::from_members(members.to_vec()).unwrap();
    assert_eq!(group.rank_of(ProcessId(1 << 30)), Some(1));
    let world = Group::consecutive(ProcessId(1 << 30), 3);
    assert_eq!((world.process(2), world.rank_of(ProcessId(2))), (Some(ProcessId((1 << 30) + 2)), None));
}
