//! Real time: the log itself is a linearization.
//!
//! Every write has a place in the log, every read the prefix that it was answered from. Formula: if
//! operation a was answered before b was asked, then place(a) <= place(b). Together with `digest`
//! (the log, replayed, gives the answers that were given) this implies linearizability, and it
//! finds a stale read even when the value happens to be the same.
//!
//! Why no false alarm: a linearizable *service* might answer from an older prefix whose registers
//! are equal; ours promises not to (its check covers a prefix, not a value).

use crate::history::Operation;

/// The place of a read of everything below `prefix`.
pub(crate) fn place_of_read(prefix: u64) -> u64 {
    prefix << 16
}

/// The place of the command `index` of the batch at `slot`.
pub(crate) fn place_of_write(slot: u64, index: usize) -> u64 {
    (slot << 16) + 1 + index as u64
}

/// Checks a whole history.
pub(crate) fn check(operations: &[Operation]) -> Result<(), String> {
    let mut answered: Vec<(u64, usize)> = operations
        .iter()
        .enumerate()
        .filter(|(_, operation)| operation.place.is_some())
        .filter_map(|(index, operation)| Some((operation.answered_at?, index)))
        .collect();
    answered.sort_unstable();
    let mut asked: Vec<(u64, usize)> = operations
        .iter()
        .enumerate()
        .filter(|(_, operation)| operation.place.is_some())
        .map(|(index, operation)| (operation.asked_at, index))
        .collect();
    asked.sort_unstable();
    let mut answered = answered.into_iter().peekable();
    let mut latest: Option<usize> = None;
    for (at, index) in asked {
        while let Some((_, before)) = answered.next_if(|(answered_at, _)| *answered_at < at) {
            if latest.is_none_or(|latest| operations[latest].place < operations[before].place) {
                latest = Some(before);
            }
        }
        if let Some(latest) = latest
            && operations[latest].place > operations[index].place
        {
            return Err(format!(
                "{:?} was asked after {:?} was answered, and comes before it in the log",
                operations[index], operations[latest]
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kv::Ask;

    fn operation(asked_at: u64, answered_at: u64, place: u64) -> Operation {
        Operation {
            client: 0,
            key: 0,
            ask: Ask::Read,
            asked_at,
            answered_at: Some(answered_at),
            answer: Some(0),
            place: Some(place),
        }
    }

    #[test]
    fn a_stale_read_is_a_violation_even_of_an_equal_value() {
        let write = operation(0, 10, place_of_write(5, 0));
        assert!(check(&[write, operation(11, 20, place_of_read(6))]).is_ok());
        assert!(check(&[write, operation(11, 20, place_of_read(5))]).is_err());
        assert!(check(&[write, operation(9, 20, place_of_read(5))]).is_ok(), "concurrent");
    }

    #[test]
    fn the_latest_of_all_answers_counts() {
        let early = operation(0, 5, place_of_write(1, 0));
        let late = operation(0, 6, place_of_write(9, 0));
        let third = operation(0, 7, place_of_write(2, 0));
        assert!(check(&[early, late, third, operation(8, 9, place_of_read(9))]).is_err());
        assert!(check(&[early, late, third, operation(8, 9, place_of_read(10))]).is_ok());
    }
}
