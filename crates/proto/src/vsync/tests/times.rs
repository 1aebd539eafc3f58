//! Times and leases, one rule at a time.

use super::*;

/// The time of the order at a newcomer to it, behind a message of another member that its state
/// covers, with this stamp.
fn skipped<P: Plantings>(stamp: u64, planted: P) -> Time {
    let rows = Rows::of(2);
    let mut current = rows.read_by(0, planted);
    let n_words = crate::vsync::region(&rows.layout.shape).n_words as usize;
    let mut port = Region { words: vec![0; n_words], ..Region::default() };
    let sender = current.lane(0).senders[1];
    let at = rows.layout.slot_of(sender.ring, 0).0 as usize;
    port.words[at] = Header::Message { number: 1, n_bytes: 1 }.word();
    port.words[at + 1] = stamp;
    let mut outbox = Outbox::default();
    outbox.send_null();
    current.skip_to(0, 2, &mut outbox, &port);
    current.lane(0).time
}

#[test]
fn k3_a_newcomer_knows_the_times_of_what_its_state_covers() {
    assert_eq!(skipped(9, Sound), Time(9));
    assert_eq!(skipped(9, Planted(Bug::SkippedUnread)), Time(0));
}

/// The clock that a row shows, of a host at 5, where a message of 9 was seen.
fn clock_shown<P: Plantings>(shape: Shape, planted: P) -> Time {
    let mut current = Rows::with(1, shape).read_by(0, planted);
    current.clock.see_host(Time(5));
    current.clock.see(Time(9));
    current.show_clock();
    Time(current.own(current.row.clock))
}

#[test]
fn k6_a_durable_groups_row_shows_what_the_next_process_can_take_up() {
    let in_memory = Rows::of(1).layout.shape;
    assert_eq!(clock_shown(in_memory, Sound), Time(9));
    assert_eq!(clock_shown(ON_DISKS, Sound), Time(5));
    assert_eq!(clock_shown(ON_DISKS, Planted(Bug::ShowsTheSeen)), Time(9));
}

/// The latest time that a row says to be seen as its owner wedged, and the clock that it shows
/// behind that.
fn shown_behind_wedging<P: Plantings>(planted: P) -> [u64; 2] {
    let mut current = Rows::of(1).read_by(0, planted);
    current.clock.see_host(Time(5));
    current.wedge();
    current.clock.see_host(Time(9));
    current.beat(Instant::ZERO);
    [current.row.seen, current.row.clock].map(|column| current.own(column))
}

#[test]
fn k4_no_frontier_is_later_than_what_a_wedged_member_has_seen() {
    assert_eq!(shown_behind_wedging(Sound), [5, 0]);
    assert_eq!(shown_behind_wedging(Planted(Bug::ClockOfWedged)), [5, 9]);
}

/// The end of the lease of one of five, in milliseconds, at 120: its beat left at 100, others that
/// have seen it said so by then, and it is counted for 90 of 110.
fn leased<P: Plantings>(n_echoes: usize, planted: P) -> u64 {
    let ms = |ms: u64| Instant(ms * 1_000_000);
    let mut rows = Rows::of(5);
    let mut current = rows.read_by(0, planted);
    current.lease = Lease::new(Some(Duration::from_millis(110)));
    current.beat(ms(100));
    (1..=n_echoes).for_each(|seat| rows.tell(seat, |row, table| table.set(row.heard, 0, 1)));
    rows.show(&mut current);
    current.renew_lease(ms(120));
    current.lease.until().0 / 1_000_000
}

/// The beat of another member that a row tells to be seen, once its owner has wedged.
fn heard_wedged<P: Plantings>(planted: P) -> u64 {
    let mut rows = Rows::of(2);
    rows.tell(1, |row, table| table.set(row.beat, 0, 7));
    let mut current = rows.read_by(0, planted);
    current.lease = Lease::new(Some(Duration::from_millis(110)));
    current.wedge();
    current.beat(Instant::ZERO);
    current.table.get(Rank::at(0), current.row.heard, 1)
}

#[test]
fn e1_a_member_that_has_wedged_hears_nothing_more() {
    assert_eq!(heard_wedged(Sound), 0);
    assert_eq!(heard_wedged(Planted(Bug::HearsWedged)), 7);
}

#[test]
fn e1_a_lease_counts_from_the_beat_that_a_majority_has_seen() {
    assert_eq!([0, 1, 2, 4].map(|n| leased(n, Sound)), [0, 0, 190, 190]);
    assert_eq!(leased(1, Planted(Bug::LeaseOfOne)), 190);
    assert_eq!(leased(2, Planted(Bug::LeaseFromEcho)), 210);
    assert_eq!(leased(2, Planted(Bug::LeaseRateIgnored)), 210);
}

/// The time from which a member answers in a shard that is new to it, by a turn that was told 100
/// at its beginning, and one that was told 130.
fn answers_from<P: Plantings>(planted: P) -> [Instant; 2] {
    let ms = |ms: u64| Instant(ms * 1_000_000);
    let mut current = Rows::of(3).read_by(0, planted);
    current.lease = Lease::new(Some(Duration::from_millis(50)));
    current.view.id = ViewId(2);
    current.hold_answers(None, ms(100));
    let before = current.lane(0).answers.from();
    current.tick_answers(ms(130));
    [before, current.lane(0).answers.from()]
}

#[test]
fn e2_a_new_view_waits_for_leases_from_a_time_that_is_told_behind_its_beginning() {
    let ms = |ms: u64| Instant(ms * 1_000_000);
    assert_eq!(answers_from(Sound), [Instant(u64::MAX), ms(180)]);
    assert_eq!(answers_from(Planted(Bug::HoldFromOldTime)), [ms(150), ms(150)]);
}
