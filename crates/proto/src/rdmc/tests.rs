//! All schedules of 2 to 16 members; and what a check of them has to reject.

use super::*;
use alloc::string::String;
use alloc::vec;
use alloc::{collections::BTreeSet, format};

/// S1 to S4.
fn check(
    schedule: Schedule,
    transfers: &[Transfer],
    n_members: usize,
    n_blocks: usize,
) -> Result<(), String> {
    let mut had_since = vec![vec![None; n_blocks]; n_members];
    had_since[0].fill(Some(0));
    let (mut senders, mut receivers) = (BTreeSet::new(), BTreeSet::new());
    let mut n_steps = 0;
    for one @ Transfer { step, from, to, block } in transfers.iter().copied() {
        if had_since[from][block].is_none_or(|since| since > step) {
            return Err(format!("S2: {one:?}"));
        }
        if had_since[to][block].replace(step + 1).is_some() {
            return Err(format!("S1: {one:?}"));
        }
        if !senders.insert((step, from)) || !receivers.insert((step, to)) {
            return Err(format!("S3: {one:?}"));
        }
        n_steps = n_steps.max(step + 1);
    }
    if had_since.iter().flatten().any(Option::is_none) {
        return Err("S1: a block is missing".into());
    }
    let expected = schedule.n_steps(n_members, n_blocks);
    if n_steps == expected { Ok(()) } else { Err(format!("S4: {n_steps} steps, not {expected}")) }
}

fn all() -> impl Iterator<Item = (Schedule, usize, usize)> {
    let blocks = [1, 2, 3, 4, 5, 7, 8, 9, 16, 31, 64, 100];
    let sizes = move |schedule| {
        (2..=16).flat_map(move |n| blocks.into_iter().map(move |b| (schedule, n, b)))
    };
    Schedule::ALL.into_iter().flat_map(sizes)
}

#[test]
fn s1_s2_s3_s4_hold_for_two_to_sixteen_members() {
    for (schedule, n_members, n_blocks) in all() {
        let transfers = schedule.transfers(n_members, n_blocks);
        let checked = check(schedule, &transfers, n_members, n_blocks);
        assert_eq!(checked, Ok(()), "{schedule:?}, {n_members} members, {n_blocks} blocks");
    }
}

/// What is planted: each must be seen, wherever it makes a difference.
#[test]
fn schedules_with_a_mistake_are_rejected() {
    let rejects = |rule: &str, schedule, transfers: &[Transfer], n, b| {
        let checked = check(schedule, transfers, n, b);
        let is_rejected = checked.as_ref().is_err_and(|why| why.starts_with(rule));
        assert!(is_rejected, "{rule} of {schedule:?}, {n} members, {b} blocks: {checked:?}");
    };
    for (schedule, n_members, n_blocks) in all() {
        let sound = schedule.transfers(n_members, n_blocks);
        let with = |change: &dyn Fn(&mut Vec<Transfer>)| {
            let mut transfers = sound.clone();
            change(&mut transfers);
            transfers.sort_by_key(|one| one.step);
            transfers
        };
        // The last transfer is lost; one comes twice; one is relayed before it is there.
        rejects("S1", schedule, &with(&|all| all.truncate(all.len() - 1)), n_members, n_blocks);
        let again = |all: &mut Vec<Transfer>| {
            let last = *all.last().unwrap();
            all.push(Transfer { step: last.step + 1, ..last });
        };
        rejects("S1", schedule, &with(&again), n_members, n_blocks);
        if let Some(relayed) = sound.iter().position(|one| one.from > 0) {
            let early = |all: &mut Vec<Transfer>| {
                let had = all.iter().position(|one| {
                    (one.to, one.block) == (sound[relayed].from, sound[relayed].block)
                });
                all[relayed].step = all[had.unwrap()].step;
                all.swap(relayed, had.unwrap() + 1);
            };
            let checked = check(schedule, &with(&early), n_members, n_blocks);
            assert!(checked.is_err(), "{schedule:?}, {n_members} members, {n_blocks} blocks");
        }
        // Two steps are one.
        if schedule.n_steps(n_members, n_blocks) > 1 && schedule != Schedule::BinomialTree {
            let hasty = with(&|all| all.iter_mut().for_each(|one| one.step /= 2));
            assert!(check(schedule, &hasty, n_members, n_blocks).is_err());
        }
        // A step is wasted.
        let late = with(&|all| all.iter_mut().for_each(|one| one.step += 1));
        rejects("S4", schedule, &late, n_members, n_blocks);
    }
}

#[test]
fn a_pipeline_is_never_longer_than_another_schedule() {
    for (schedule, n_members, n_blocks) in all() {
        let least = Schedule::BinomialPipeline.n_steps(n_members, n_blocks);
        assert!(least <= schedule.n_steps(n_members, n_blocks), "{schedule:?}");
    }
}

#[test]
fn turns_are_each_members_part() {
    let transfers = Schedule::Chain.transfers(3, 2);
    assert_eq!(turns_of(&transfers, 0), [(0, Turn::Send(1), 0), (1, Turn::Send(1), 1)]);
    let middle = [
        (0, Turn::Receive(0), 0),
        (1, Turn::Receive(0), 1),
        (1, Turn::Send(2), 0),
        (2, Turn::Send(2), 1),
    ];
    assert_eq!(turns_of(&transfers, 1), middle);
    for (schedule, n_members, n_blocks) in all() {
        let transfers = schedule.transfers(n_members, n_blocks);
        let n: usize = (0..n_members).map(|member| turns_of(&transfers, member).len()).sum();
        assert_eq!(n, 2 * transfers.len());
    }
}

#[test]
fn without_waits_for_others_a_schedule_takes_at_most_its_steps() {
    let cost = Cost { block_ns: 100.0, byte_ns: 0.5 };
    for (schedule, n_members, n_blocks) in all() {
        let transfers = schedule.transfers(n_members, n_blocks);
        let span = cost.span_ns(&transfers, n_members, 1000);
        let steps = schedule.n_steps(n_members, n_blocks) as f64 * 600.0;
        // No member receives all blocks sooner than one after the other.
        let floor = n_blocks as f64 * 600.0;
        assert!((floor..=steps).contains(&span), "{schedule:?}: {span} of {floor} to {steps}");
        if schedule != Schedule::BinomialTree {
            assert!(span == steps, "{schedule:?} has no slack: {span} of {steps}");
        }
    }
}
