//! Validity: what is delivered was multicast, once at each process, in a view in which its sender
//! and its receiver are in the shard that it was multicast in, and the view and that subgroup have
//! enough members. (`vsync`, V16: messages of the view's end too.)
//!
//! No false alarm: messages are counted when the machine takes them, before it can send them.

use super::History;
use crate::group::history::{ProcessId, Told};
use proto::vsync::View;
use std::collections::BTreeSet;

pub(super) fn check(history: &History) -> Result<(), String> {
    let views = history.views();
    for (process, record) in &history.records {
        let mut seen = BTreeSet::new();
        let delivered = record.told.iter().filter_map(|told| {
            let Told::Deliver { shard, at, id, .. } = told else { return None };
            Some((*shard, *at, *id))
        });
        for (shard, at, id) in delivered {
            let sender = ProcessId(id.sender, id.incarnation);
            let n_multicast =
                history.records.get(&sender).and_then(|one| one.n_multicast.get(&shard));
            if id.shard != shard || id.ordinal == 0 || n_multicast.is_none_or(|n| id.ordinal > *n) {
                return Err(format!(
                    "{process:?} delivered {id:?} at {at:?} of {shard}: never multicast"
                ));
            }
            if !seen.insert(id) {
                return Err(format!("{process:?} delivered {id:?} twice, the last at {at:?}"));
            }
            let view = views.get(&at.view);
            let mut members = view.iter().flat_map(|view| &view.members);
            let is_in = |view: &&View| {
                let seats = view.shard(shard).map(|shard| &shard.seats);
                let both = [id.sender, process.0];
                let is_adequate = view.members.len() >= history.n_adequate
                    && view.roster[usize::from(shard.subgroup)].is_adequate;
                is_adequate && seats.is_some_and(|seats| both.iter().all(|one| seats.contains(one)))
            };
            if !members.any(|one| ProcessId::of(&one.process) == sender) || !view.is_some_and(is_in)
            {
                return Err(format!("{process:?} delivered {id:?} at {at:?}, of no member"));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inventions_repetitions_and_strangers_are_violations() {
        let mut sound = History::default();
        sound.installed(0, 1, &[0, 1]).multicast(1, 2).multicast(2, 1).delivered(0, (1, 1), (1, 1));
        assert_eq!(check(&sound), Ok(()));
        assert!(check(sound.clone().delivered(0, (1, 3), (1, 3))).is_err(), "never multicast");
        assert!(check(sound.clone().delivered(0, (1, 3), (1, 1))).is_err(), "twice");
        assert!(check(sound.clone().delivered(0, (1, 3), (2, 1))).is_err(), "of no member");
        let of_three = History { n_adequate: 3, ..sound };
        assert!(check(&of_three).is_err(), "the view has two members");
    }
}
