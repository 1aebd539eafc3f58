//! Genuineness (2.2.1): for a message to be ordered only its sender and its destinations take
//! steps. Leader election, epochs and collection inside a group are exempt; a clock may travel
//! between two groups only if some message that was multicast addresses both.
//!
//! The world notes each violation as the message is sent.

use crate::amcast::history::History;

pub(super) fn check(history: &History) -> Result<(), String> {
    match history.strayed.first() {
        None => Ok(()),
        Some(what) => Err(what.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_strays_is_reported() {
        let mut history = History::default();
        assert_eq!(check(&history), Ok(()));
        history.strayed.push("m1.1 goes from g0 to g2".to_string());
        assert!(check(&history).is_err());
    }
}
