//! Rest: once faults have stopped and all is delivered, nothing is under way and no process waits,
//! asks or repeats any longer. A message that only dead processes had is requested without end:
//! then nothing is demanded.

use crate::amcast::history::History;

pub(super) fn check(history: &History) -> Result<(), String> {
    match &history.unrest {
        Some(next) if history.n_cut_short() == 0 => {
            Err(format!("the world does not come to rest: next is {next}"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unrest_is_reported_unless_a_sender_died_half_way() {
        let mut history = History::default();
        history.multicast(1, &[0]);
        assert_eq!(check(&history), Ok(()));
        history.unrest = Some("a tick".into());
        assert!(check(&history).is_err());
        history.meant.values_mut().for_each(|meant| meant.is_whole = false);
        assert_eq!(check(&history), Ok(()));
    }
}
