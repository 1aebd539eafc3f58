//! Streams of frames that cannot be read.

use super::*;
use crate::desk::Desk;
use crate::flow::CHANNEL;
use crate::mock;
use crate::service::Asker;

const LEADER: Rank = Rank::at(1);

#[test]
fn commands_go_out_again_when_what_their_leader_sends_cannot_be_read() {
    let mut core = mock::core(0, Default::default());
    core.target = Some(LEADER);
    core.host.desk.now = Instant(1);
    core.host.desk.write(Asker { connection: 1, request: 0 }, b"command");
    let mut leader = Incoming::default();
    let mut arrive = |core: &mut mock::Member| {
        core.dispatch_commands();
        let HostState { flows, plant, .. } = &mut core.host;
        flows.send(plant);
        let (mut attempts, mut refused) = (Vec::new(), None);
        for message in plant.take(LEADER) {
            let unread = leader.on_message(Rank::at(0), &message, |frame| match frame {
                Frame::Commands { attempt, items, .. } => {
                    attempts.push((attempt, items.iter().count()));
                }
                other => panic!("{other:?}"),
            });
            refused = refused.or(unread);
        }
        (attempts, refused)
    };
    let (attempts, refused) = arrive(&mut core);
    assert_eq!((attempts.len(), refused), (1, None));
    assert_eq!(arrive(&mut core), (vec![], None), "it is on its way");
    // The answer comes in a stream that is not readable.
    let mut incoming = Incoming::default();
    let stream = 7u64;
    let mut message = vec![CHANNEL, 1];
    message.extend_from_slice(&stream.to_le_bytes());
    message.extend_from_slice(&[0; 9]);
    core.on_message(LEADER, &message, &mut incoming);
    assert_eq!(incoming.n_malformed, 1);
    assert!(core.refuse_streams(&mut incoming));
    let (again, refused) = arrive(&mut core);
    assert_eq!(refused, Some(stream), "the leader hears of it, and begins another");
    assert_eq!(again, [(attempts[0].0 + 1, 1)], "and the command is there again");
}

#[test]
fn streams_end_once_for_each_that_cannot_be_read() {
    let mut core = mock::core(0, Default::default());
    core.target = Some(LEADER);
    let mut incoming = Incoming::default();
    let before = core.attempt;
    let refusal = |stream: u64| {
        let mut message = vec![CHANNEL, 2];
        message.extend_from_slice(&stream.to_le_bytes());
        message
    };
    let present = (0..1 << 22).find(|n| core.host.flows.is_present(LEADER, *n)).expect("named");
    core.on_message(LEADER, &refusal(present), &mut incoming);
    assert_eq!(core.attempt, before + 1);
    core.on_message(LEADER, &refusal(present), &mut incoming);
    assert_eq!(core.attempt, before + 1, "that stream has ended already");
}

fn reader(request: u64) -> Asker {
    Asker { connection: 1, request }
}

#[test]
fn i2_reads_that_waited_for_a_tick_are_checked_when_it_has_come_or_another_leads() {
    for is_deposed in [false, true] {
        let mut core = mock::core(0, Default::default());
        let now = Instant(1);
        core.host.desk.after_tick.own(reader(7), now.plus(core.host.desk.patience));
        core.ticks.want_before_reads(core.host.stats.values_executed);
        core.dispatch_reads();
        assert_eq!(core.host.desk.after_tick.readers.len(), 1, "nothing has passed");
        if is_deposed {
            core.host.notes.push_back(Note::Deposed { ballot: base::Ballot(3) });
            core.take_notes();
        } else {
            core.host.stats.values_executed += 1;
            core.dispatch_reads();
        }
        let desk = &core.host.desk;
        assert!(desk.after_tick.readers.is_empty(), "deposed: {is_deposed}");
        assert!(!desk.is_idle(), "it waits for its check");
    }
}

/// What members' commands wait for while this one is believed to lead.
#[test]
fn i1_who_leads_no_more_refuses_what_others_gave_it() {
    let mut core = mock::core(2, Default::default());
    core.host.desk.now = Instant(1);
    core.target = Some(Rank::at(2));
    assert_ne!(core.node.trusted(), core.target, "another is trusted");
    let mut list = Vec::new();
    crate::wire::push_item(&mut list, 1, b"set");
    let items = crate::wire::Items::check(&list).expect("one");
    assert!(core.foreign.take(LEADER, 5, 1, items, true));
    core.refresh_view();
    assert!(core.foreign.is_empty());
    let HostState { flows, plant, .. } = &mut core.host;
    flows.send(plant);
    let (mut origin, mut refused) = (Incoming::default(), Vec::new());
    for message in plant.take(LEADER) {
        let unread = origin.on_message(Rank::at(2), &message, |frame| match frame {
            Frame::CommandsRefused { life, attempt } => refused.push((life, attempt)),
            other => panic!("{other:?}"),
        });
        assert_eq!(unread, None);
    }
    assert_eq!(refused, [(5, 1)], "it hears of it, and tries another");
}

/// Two commands of `LEADER`'s clients, the first of which fits into no batch, at a leader that has
/// begun with it.
fn half_way_through_a_command() -> mock::Member {
    let mut core = mock::core(0, Default::default());
    core.host.desk.now = Instant(1);
    core.host.leads = true;
    core.host.app.takes_parts = true;
    give(&mut core, 1);
    core.dispatch_commands();
    assert_eq!(core.host.app.n_abandoned, 0);
    core
}

/// The clients of `LEADER` ask in their attempt of this number.
fn give(core: &mut mock::Member, attempt: u64) {
    let mut list = Vec::new();
    crate::wire::push_item(&mut list, attempt, b"set");
    let items = crate::wire::Items::check(&list).expect("one");
    assert!(core.foreign.take(LEADER, 5, attempt, items, true));
}

#[test]
fn half_a_command_is_given_up_by_who_is_deposed() {
    let mut core = half_way_through_a_command();
    core.host.notes.push_back(Note::Deposed { ballot: base::Ballot(1) });
    core.take_notes();
    assert_eq!(core.host.app.n_abandoned, 1);
}

#[test]
fn half_a_command_whose_rest_does_not_come_is_given_up() {
    let mut core = half_way_through_a_command();
    // Its member trusted another for a moment; what comes next begins with another command.
    core.foreign.refuse_all(|_, _, _| {});
    give(&mut core, 2);
    core.host.app.takes_parts = false;
    core.dispatch_commands();
    assert_eq!(core.host.app.n_abandoned, 1);
}

/// What it knew is its successor's to tell; and the slots of its next reign begin where that ended.
#[test]
fn answers_that_waited_for_every_disk_are_not_told_by_who_was_deposed() {
    let mut core = mock::core(0, Default::default());
    let mut answers = crate::service::Answers::default();
    answers.push(core.host.origin, Sequence(1), b"done");
    let withheld = core.host.withheld.get_or_insert_default();
    withheld.keep(Slot(3), &mut answers);
    core.host.notes.push_back(Note::Deposed { ballot: base::Ballot(1) });
    core.take_notes();
    assert!(!core.host.tell_held(Prefix(9)));
}

#[test]
fn what_has_no_answer_goes_out_again_when_the_way_to_its_leader_changes() {
    let mut core = mock::core(0, Default::default());
    core.target = Some(LEADER);
    core.host.desk.now = Instant(1);
    core.host.desk.write(reader(0), b"command");
    core.dispatch_commands();
    assert!(!core.host.desk.writes.has_undispatched(), "it is on its way");
    core.host.desk.read(reader(1));
    let ticket = core.host.desk.begin_round().expect("one waits");
    core.host.flows.detours.set_via(LEADER, Some(Rank::at(2)));
    core.find_way();
    assert_eq!(core.host.flows.detours.via(LEADER), None, "the member between is of no use");
    assert!(core.host.desk.writes.has_undispatched());
    assert!(core.host.desk.end_round(ticket).is_none(), "its check may never end");
    assert_eq!(core.host.desk.waiting.readers.len(), 1);
}

/// Where a leader sends an answer to member 1, whose request came through member 2, when its own
/// end of the cut link has broken, and when the link is back.
fn answers_to(planted: Option<Bug>) -> [Option<Rank>; 2] {
    let mut core = mock::core(0, Default::default());
    core.host.plant.bug = planted;
    let (origin, between) = (Rank::at(1), Rank::at(2));
    let mut frame = Vec::new();
    let items = crate::wire::Items::NONE;
    Frame::Commands { life: 1, attempt: 1, items }.encode(&mut frame);
    core.on_frame(between, Frame::Passed { peer: 1, frame: &frame });
    let mut sent_to = |is_up: bool| {
        core.end_streams(origin, is_up);
        core.host.flows.push(origin, &Frame::CommandsRefused { life: 1, attempt: 1 });
        let HostState { flows, plant, .. } = &mut core.host;
        flows.send(plant);
        [origin, between].into_iter().find(|to| !plant.take(*to).is_empty())
    };
    [sent_to(false), sent_to(true)]
}

/// The trap: the kernel gives the link up seconds after the way around it was found. The answer
/// goes into a link that does not exist, and nothing tells the origin.
#[test]
fn an_answer_goes_the_way_that_its_request_came_until_the_link_is_back() {
    let (origin, between) = (Some(Rank::at(1)), Some(Rank::at(2)));
    assert_eq!(answers_to(None), [between, origin]);
    assert_eq!(answers_to(Some(Bug::WayEndsWithItsLink)), [origin, origin]);
}

#[test]
fn reads_that_the_leader_refused_are_asked_again() {
    let mut core = mock::core(0, Default::default());
    core.target = Some(LEADER);
    core.host.desk.now = Instant(1);
    let sequence = core.host.desk.asked.push(reader(1), b"get", Instant(99));
    core.dispatch_reads();
    assert!(!core.host.desk.asked.has_undispatched(), "it is on its way");
    let mut list = Vec::new();
    crate::wire::push_item(&mut list, sequence.0, &[]);
    let items = crate::wire::Items::check(&list).expect("one");
    core.on_frame(LEADER, Frame::ReadsRefused { life: 1, items });
    assert!(core.host.desk.asked.has_undispatched());
    core.dispatch_reads();
    assert!(core.host.desk.asked.has_undispatched(), "a little later");
    core.host.desk.now = core.read_pause_until;
    core.dispatch_reads();
    assert!(!core.host.desk.asked.has_undispatched());
}

/// Without the pause it would do that in every turn, and take a processor.
#[test]
fn a_member_that_trusts_itself_and_does_not_lead_asks_itself_again_a_little_later() {
    let mut core = mock::core(0, Default::default());
    core.target = Some(Rank::at(0));
    core.host.desk.now = Instant(1);
    core.host.desk.asked.push(reader(1), b"get", Instant(99));
    assert!(core.dispatch_reads());
    let begun = core.host.desk.begin_round();
    assert_eq!(begun, None, "the read is in the round that was begun");
    core.on_read_refused(proto::Ticket(0));
    assert!(core.host.desk.asked.has_undispatched());
    assert!(!core.dispatch_reads(), "a little later");
    core.host.desk.now = core.read_pause_until;
    assert!(core.dispatch_reads());
}

/// (Seed 7700142 of velos-cluster: such a member never slept, and no read ever left.)
#[test]
fn reads_for_which_there_is_no_room_on_the_way_to_the_leader_wait_for_a_while() {
    fn turns(planted: Option<Bug>) -> ([bool; 4], bool) {
        let mut core = mock::core(0, Default::default());
        core.host.plant.bug = planted;
        let bounds = Bounds { span: 1, ..Bounds::default() };
        core.host.desk = Desk::bounded(core.host.desk.view, Duration::from_secs(5), bounds);
        core.target = Some(LEADER);
        core.host.desk.view.role = Role::Learner;
        core.host.desk.now = Instant(1);
        (1..=3).for_each(|n| core.host.desk.waiting.own(reader(n), Instant(99)));
        let worked = std::array::from_fn(|_| core.dispatch_reads());
        for _ in 0..40 {
            core.host.desk.now = core.host.desk.now.plus(REFUSED_PAUSE / 10);
            core.dispatch_reads();
        }
        (worked, !core.host.desk.asked.has_undispatched())
    }
    assert_eq!(turns(None), ([true, false, false, false], true), "and the first leaves");
    assert_eq!(turns(Some(Bug::TriesEachTurn)), ([true; 4], false), "the mistake shows");
}

#[test]
fn i3_a_round_that_takes_several_turns_leaves_no_read_out() {
    let mut core = mock::core(0, Default::default());
    let bounds = Bounds { slice_bytes: 512, ..Bounds::default() };
    core.host.desk = Desk::bounded(core.host.desk.view, core.host.desk.patience, bounds);
    (0..5).for_each(|request| core.host.desk.read(reader(request)));
    let ticket = core.host.desk.begin_round().expect("five wait");
    core.on_read_ready(ticket);
    let mut performed = vec![core.host.stats.reads_performed];
    while core.host.desk.has_ripe() {
        core.host.desk.begin_slice();
        core.perform_ripe();
        performed.push(core.host.stats.reads_performed);
    }
    assert_eq!(performed, [2, 4, 5]);
}
