//! Views, as the table of protocols knows them.

use crate::table::{Ordering, Row};

/// Promises and costs.
pub const ROW: Row = Row {
    name: "vsync",
    summary: "Views and totally ordered multicast in each of them: no leader while nothing fails",
    source: "paper 000, appendices A and B",
    ordering: Ordering::RoundRobin,
    consistency: "virtual synchrony: total order, and the same messages between two views",
    survives: "the crash of any minority of each view; on disk, of all members",
    write_cost: "one write to every member and one back",
    read_cost: "none: local, and possibly stale; with a lease, a wait for what is on its way",
    leader_change: "a view change: three one-way delays after the suspicion",
    fabrics: &["shm", "tcp", "sim"],
    needs: "",
    durability: &["memory-quorum", "disk-all"],
    members_change: true,
};
