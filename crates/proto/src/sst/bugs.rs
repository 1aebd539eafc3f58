//! The planted mistakes of the shared state table: groups under seeds hunt those that views cannot
//! bear.

crate::planted_bugs! {
    /// What guards is pushed before what it guards.
    GuardFirst = GUARD_FIRST: sweep ["vsync"],
    /// A row says first which view it is of, and then what it says in it.
    ViewFirst = VIEW_FIRST: sweep ["vsync"],
    /// A row counts whichever view it names.
    AnyView = ANY_VIEW: sweep ["vsync"],
    /// Odd and even views have their rows and rings in the same place.
    OnePlace = ONE_PLACE: sweep ["vsync"],
    /// A place is written for a view while it still names an earlier one.
    UnclaimedPlace = UNCLAIMED_PLACE: tests,
    /// The row of a member that is suspected is read as before.
    FrozenIsRead = FROZEN_IS_READ: tests,
    /// A row is read in the order in which it is written.
    ReadsForward = READS_FORWARD: sweep ["vsync"],
}
