//! Nodes whose disks take nothing.

use super::cut::{lans, town};
use super::*;
use proto::disk::Flush;

/// The time of a sync after which the disk reports that it stalls.
const STALLED_AFTER: Duration = Duration::from_millis(500);

/// A disk with one sync at a time, which takes long.
pub(super) struct Slow {
    takes: Duration,
    /// The beginning of the sync under way, and what it covers.
    under_way: Option<(Instant, u64)>,
    n_synced: u64,
    is_stalled: bool,
}

impl Slow {
    fn new(takes: Duration, disk: &Paper) -> Slow {
        Slow { takes, under_way: None, n_synced: disk.n_flushes, is_stalled: false }
    }

    pub(super) fn poll(&mut self, disk: &mut Paper, now: Instant, events: &mut Vec<DiskEvent>) {
        let wants = disk.n_flushes > self.n_synced;
        if self.under_way.is_none() && wants {
            self.under_way = Some((now, disk.n_flushes));
        }
        let Some((since, upto)) = self.under_way else { return };
        if now.since(since) >= self.takes {
            (self.under_way, self.n_synced) = (None, upto);
            if std::mem::take(&mut self.is_stalled) {
                events.push(DiskEvent::Flowing);
            }
            disk.sync_now();
            events.push(DiskEvent::Synced(Flush(upto)));
        } else if now.since(since) > STALLED_AFTER && !self.is_stalled {
            self.is_stalled = true;
            events.push(DiskEvent::Stalled);
        }
    }
}

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

/// The leaders that the nodes trust one after the other, and the messages that each node delivers,
/// while each sync of every disk takes this long.
fn while_slow(takes: Duration) -> (usize, [usize; N]) {
    let mut town = town(Some(&Paper::default()), Sound);
    let pause = Duration::from_millis(5);
    for lan in &mut town.lans {
        let disk = lan.disk.as_ref().expect("it has one");
        lan.slow = Some(Slow::new(takes, disk));
    }
    let (mut trusted, mut n_changes) = ([None; N], 0);
    for n in 0..60_u32 {
        town.multicast(1, &n.to_le_bytes());
        for _ in 0..67 {
            town.run(&[0, 1, 2], 1, pause);
            for (at, last) in trusted.iter_mut().enumerate() {
                let now = town.nodes[at].desk.views.first().and_then(|view| view.trusted);
                n_changes += usize::from(now.is_some() && *last != now);
                *last = now.or(*last);
            }
        }
        if town.nodes[1].desk.n_open() > 8 {
            break;
        }
    }
    town.run(&[0, 1, 2], 2_000, pause);
    (n_changes, std::array::from_fn(|at| town.nodes[at].app.delivered.len()))
}

/// Else each of its syncs hands the groups over, and no epoch need ever begin.
#[test]
fn k6_disks_that_are_all_slow_lead_after_a_few_changes_of_leaders() {
    let (n_changes, delivered) = while_slow(Duration::from_millis(600));
    assert!(n_changes < 15, "{n_changes} changes at three nodes");
    assert_eq!(delivered, [60; N]);
}

/// The disk of a node that begins has to take its first whole.
#[test]
fn an_application_minds_its_clients_while_a_disk_holds_its_node() {
    let mut town = Town::apart(lans(Some(&Paper::default())), &everywhere(), Sound);
    town.lans[0].is_stalled = true;
    (0..3).for_each(|_| town.turn(0));
    assert_eq!(town.nodes[0].app.n_held, 3);
    town.lans[0].is_stalled = false;
    (0..10).for_each(|_| town.turn(0));
    let n_held = town.nodes[0].app.n_held;
    (0..3).for_each(|_| town.turn(0));
    assert_eq!(town.nodes[0].app.n_held, n_held, "it takes part");
}
