//! Nodes whose disks take nothing.

use super::cut::town;
use super::*;

/// Whether another one leads once the disk of the leader syncs nothing, and the number of messages
/// that the others have delivered then.
fn while_stalled<P: Planting<Bug>>(planted: P) -> (bool, [usize; 2]) {
    let mut town = town(Some(&Paper::default()), planted);
    let pause = Duration::from_millis(10);
    town.multicast(0, b"four");
    town.run(&[0, 1, 2], 100, pause);
    let leads = |town: &Town<P>, at: usize| town.nodes[at].desk.views[0].is_primary;
    let leader = (0..N).find(|at| leads(&town, *at)).expect("one leads");
    let others = [(leader + 1) % N, (leader + 2) % N];
    town.lans[leader].is_stalled = true;
    town.run(&[0, 1, 2], 100, pause);
    town.multicast(others[0], b"more");
    town.run(&[0, 1, 2], 500, pause);
    let delivered = others.map(|at| town.nodes[at].app.delivered.len());
    (others.into_iter().any(|at| leads(&town, at)), delivered)
}

#[test]
fn k6_a_node_whose_disk_stalls_leads_no_group() {
    assert_eq!(while_stalled(Sound), (true, [2, 2]));
    let planted = while_stalled(Planted(Bug::LeadsWhileStalled));
    assert_eq!(planted, (false, [1, 1]), "a planted bug");
}
