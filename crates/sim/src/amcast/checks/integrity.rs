//! Uniform integrity (2.2.1): any process delivers any message at most once, only if it is
//! addressed, and only if the message was multicast before.

use crate::amcast::history::{Happened, History};
use std::collections::BTreeSet;

pub(super) fn check(history: &History) -> Result<(), String> {
    let mut multicast = BTreeSet::new();
    let mut seen = BTreeSet::new();
    for (_, happened) in &history.happened {
        match happened {
            Happened::Multicast(id) => {
                multicast.insert(*id);
            }
            Happened::Cut { .. } => {}
            Happened::Delivered { by, id, .. } => {
                if !multicast.contains(id) {
                    return Err(format!("{by:?} delivers {id:?}, which nobody multicast"));
                }
                if history.dest(*id).is_none_or(|dest| !dest.contains(by.group)) {
                    return Err(format!("{by:?} delivers {id:?}, which goes elsewhere"));
                }
                if !seen.insert((*by, *id)) {
                    return Err(format!("{by:?} delivers {id:?} twice"));
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amcast::history::made_up::pid;

    #[test]
    fn once_at_a_destination_and_multicast_before() {
        let mut history = History::default();
        history.multicast(1, &[0]).delivered(pid(0, 0), 1, 1);
        assert_eq!(check(&history), Ok(()));
        assert!(check(history.clone().delivered(pid(0, 0), 1, 1)).is_err(), "twice");
        assert!(check(history.clone().delivered(pid(1, 0), 1, 1)).is_err(), "elsewhere");
        assert!(check(history.delivered(pid(0, 0), 2, 2)).is_err(), "out of nothing");
    }
}
