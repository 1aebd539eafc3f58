//! How the processes of a test end.

use crate::company::Company;

/// Whether a process says with this line that it is no longer in the group.
pub(crate) fn is_end(line: &str) -> bool {
    line.starts_with("ended")
}

/// Ends the chat, and lets all of `seats` leave in turn.
pub(crate) fn dismiss(company: &mut Company, seats: &[usize]) {
    for seat in seats {
        company.tell(*seat, "hush");
        company.await_line(*seat, "hush", |line| line == "hushed");
    }
    for seat in seats {
        company.tell(*seat, "leave");
        let line = company.await_line(*seat, "end", is_end);
        assert!(line.contains("left, as it was asked to"), "seat {seat}: {line}");
    }
}
