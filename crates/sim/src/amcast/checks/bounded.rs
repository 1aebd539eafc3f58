//! Collection: once everything is delivered and all processes have had time to report that, a
//! process remembers nothing of it, or, if a member that would have to report is dead, as many
//! messages as it was set to retain.

use crate::amcast::history::History;

pub(super) fn check(history: &History) -> Result<(), String> {
    match history.held.iter().find(|held| held.n > held.most) {
        None => Ok(()),
        Some(held) => Err(format!(
            "{:?} still remembers {} messages, {} at most are right",
            held.by, held.n, held.most
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amcast::history::Held;
    use crate::amcast::history::made_up::pid;

    #[test]
    fn what_is_held_too_long_is_reported() {
        let mut history = History::default();
        history.held.push(Held { by: pid(0, 0), n: 4, most: 4 });
        assert_eq!(check(&history), Ok(()));
        history.held.push(Held { by: pid(0, 1), n: 5, most: 4 });
        assert!(check(&history).is_err());
    }
}
