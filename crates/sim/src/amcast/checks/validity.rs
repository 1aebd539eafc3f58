//! Validity (2.2.1): every correct destination delivers the messages of a correct process. Judged
//! at the end, after faults have stopped.

use crate::amcast::history::History;
use std::collections::BTreeSet;

pub(super) fn check(history: &History) -> Result<(), String> {
    let deliveries = history.deliveries();
    for process in &history.correct {
        let own = deliveries.get(process).into_iter().flatten();
        let own: BTreeSet<_> = own.map(|(id, _)| *id).collect();
        for (id, meant) in &history.meant {
            if meant.is_whole && meant.dest.contains(process.group) && !own.contains(id) {
                return Err(format!("{process:?} never delivers {id:?}, whose sender lives"));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amcast::history::made_up::{id, pid};

    #[test]
    fn a_senders_death_excuses_and_nothing_else_does() {
        let mut history = History::default();
        history.multicast(1, &[0]);
        history.correct = vec![pid(0, 0)];
        assert!(check(&history).is_err());
        history.meant.get_mut(&id(1)).expect("it was multicast").is_whole = false;
        assert_eq!(check(&history), Ok(()));
    }
}
