//! The door's refusals, bounds and ends, in one process: each group is a thread of its own.

use group::{
    Ended, Error, Event, Group, LETTER_BYTES_MAX, MESSAGE_BYTES_MAX, Mode, Options, Refused,
    Transport, View,
};
use std::path::Path;
use std::time::{Duration, Instant};

#[path = "common/memory.rs"]
mod memory;
#[path = "../examples/members/ports.rs"]
mod ports;
use memory::directory;

const PATIENCE: Duration = Duration::from_secs(30);

fn shm(directory: &Path) -> Options {
    memory::options("door", directory, PATIENCE)
}

fn tcp(directory: &Path) -> Options {
    let addresses = ports::free(3).expect("ports are free");
    Options { seats: 3, transport: Transport::Tcp { addresses, listen: None }, ..shm(directory) }
}

/// The next event that `is` picks.
fn next<T>(group: &Group, mut is: impl FnMut(Event) -> Option<T>) -> T {
    let by = Instant::now() + PATIENCE;
    loop {
        let left = by.saturating_duration_since(Instant::now());
        let event = group.next(left).expect("the event comes");
        if let Some(found) = is(event) {
            return found;
        }
    }
}

fn next_view(group: &Group, n_members: usize) -> View {
    next(group, |event| match event {
        Event::View(view) if view.members.len() == n_members => Some(view),
        _ => None,
    })
}

/// The seats of the senders of the next `n` messages.
fn senders(group: &Group, n: usize) -> Vec<usize> {
    let sender = |event| match event {
        Event::Delivered(one) => Some(one.sender.seat),
        _ => None,
    };
    (0..n).map(|_| next(group, sender)).collect()
}

fn next_end(group: &Group) -> Ended {
    next(group, |event| if let Event::Ended(why) = event { Some(why) } else { None })
}

fn refusal(options: &Options) -> String {
    match Group::join(options) {
        Err(error @ Error::Refused { .. }) => error.to_string(),
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn another_secret_application_or_size_is_refused_with_both_values() {
    let directory = directory();
    for options in [shm(directory.path()), tcp(directory.path())] {
        let is_shm = options.transport == Transport::Shm;
        let group = Group::found(&Options { seat: Some(1), ..options.clone() }).unwrap();
        let other = Options { seat: Some(2), ..options };
        let said = refusal(&Options { secret: "opensesame".into(), ..other.clone() });
        // On tcp a secret is proved, and its fingerprint never told.
        assert!(
            said.contains(if is_shm { "its fingerprint is" } else { "secrets differ" }),
            "{said}"
        );
        assert!(!said.contains("sesame"), "{said}");
        let said = refusal(&Options { name: "window".into(), ..other.clone() });
        assert!(said.contains("fingerprint"), "{said}");
        for other in [
            Options { application: "door 2".into(), ..other.clone() },
            Options { window: 7, ..other.clone() },
            Options { adequate: 2, ..other.clone() },
        ] {
            let said = refusal(&other);
            assert!(said.contains("layout") && said.contains(&other.application), "{said}");
            assert!(said.contains(&format!("window {}", other.window)), "{said}");
        }
        // Nothing was changed by any of them.
        let joined = Group::join(&other).unwrap();
        next_view(&group, 2);
        joined.close(PATIENCE).unwrap();
        group.close(PATIENCE).unwrap();
    }
}

#[test]
fn a_group_is_founded_once_and_a_seat_has_one_process() {
    let directory = directory();
    for options in [shm(directory.path()), tcp(directory.path())] {
        let options = Options { seats: 3, ..options };
        let group = Group::found(&options).unwrap();
        let second = Group::found(&options);
        assert!(matches!(second, Err(Error::Exists { seat: 1, view: 1 })), "{second:?}");
        let taken = Group::join(&Options { seat: Some(1), ..options.clone() });
        assert!(
            matches!(&taken, Err(Error::NoSeat { said }) if said.contains("seat 1")),
            "{taken:?}"
        );
        let others = [Group::join(&options).unwrap(), Group::join(&options).unwrap()];
        let seats: Vec<usize> = others.iter().map(|one| one.me().seat).collect();
        assert_eq!(seats, [2, 3], "the first that is free");
        let full = Group::join(&options);
        assert!(matches!(full, Err(Error::NoSeat { .. })), "{full:?}");
        drop(others);
        drop(group);
        assert!(!options.directory.exists(), "nothing is left behind");
    }
}

/// As many members as a fabric can join, over each one.
#[test]
fn a_group_has_thirty_two_members() {
    const SEATS: usize = 32;
    let directory = directory();
    let addresses = ports::free(SEATS).expect("ports are free");
    let tcp = Transport::Tcp { addresses, listen: None };
    for transport in [Transport::Shm, tcp] {
        let options = Options { seats: SEATS, transport, window: 8, ..shm(directory.path()) };
        let mut members = vec![Group::found(&options).unwrap()];
        members.extend((1..SEATS).map(|_| Group::join(&options).unwrap()));
        members.iter().for_each(|member| drop(next_view(member, SEATS)));
        for member in &members {
            member.send_within(b"here", PATIENCE).unwrap();
        }
        let orders: Vec<Vec<usize>> = members.iter().map(|one| senders(one, SEATS)).collect();
        assert!(orders.iter().all(|order| *order == orders[0]), "{orders:?}");
        drop(members);
    }
}

#[test]
fn nobody_answers_and_it_is_said_of_each_seat() {
    let directory = directory();
    for options in [shm(directory.path()), tcp(directory.path())] {
        let lonely = Options { patience: Duration::from_millis(300), ..options };
        let error = Group::join(&lonely).unwrap_err();
        assert!(matches!(error, Error::NoAnswer { .. }), "{error:?}");
        let said = error.to_string();
        assert!(said.contains("\"door\"") && said.contains("seat 2"), "{said}");
        assert!(!lonely.directory.exists(), "nothing is left behind");
    }
}

#[test]
fn too_long_a_message_is_refused_and_the_longest_is_delivered() {
    let directory = directory();
    let options = Options { message_bytes: 100, ..shm(directory.path()) };
    let group = Group::found(&options).unwrap();
    let refused = group.send(&[7; 101]);
    assert_eq!(refused, Err(Refused::TooLong { bytes: 101, most: 100 }));
    let number = group.send(&[8; 100]).unwrap();
    assert_eq!((number, group.send(b"").unwrap()), (1, 2));
    assert_eq!(group.wait_delivered(2, PATIENCE), Ok(true));
    let delivered = |event| if let Event::Delivered(one) = event { Some(one) } else { None };
    let one = next(&group, delivered);
    assert_eq!((one.own, &*one.bytes, one.sender), (Some(1), &[8; 100][..], group.me()));
    assert!(next(&group, delivered).bytes.is_empty(), "an empty one is a message, too");
    group.close(PATIENCE).unwrap();
}

#[test]
fn the_longest_messages_that_can_be_fill_a_window_and_all_arrive() {
    let directory = directory();
    for options in [shm(directory.path()), tcp(directory.path())] {
        // On tcp such a window holds more bytes than a link keeps.
        let options = Options { seats: 3, window: 20, message_bytes: MESSAGE_BYTES_MAX, ..options };
        let sender = Group::found(&options).unwrap();
        let receiver = Group::join(&options).unwrap();
        next_view(&sender, 2);
        let message = |n: u8| vec![n; MESSAGE_BYTES_MAX as usize - usize::from(n % 2)];
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for n in 0..50 {
                    sender.send_within(&message(n), PATIENCE).unwrap();
                }
            });
            for n in 0..50 {
                let bytes = next(&receiver, |event| match event {
                    Event::Delivered(one) => Some(one.bytes),
                    Event::Ended(why) => panic!("{why}"),
                    _ => None,
                });
                assert!(bytes[..] == message(n), "message {n} has {} bytes", bytes.len());
            }
        });
        let ended = [receiver, sender].map(|one| one.close(PATIENCE));
        assert_eq!(ended, [Ok(()), Ok(())]);
    }
}

#[test]
fn an_unordered_group_delivers_each_senders_messages_in_order_and_has_no_state() {
    const N: u64 = 300;
    let directory = directory();
    for options in [shm(directory.path()), tcp(directory.path())] {
        let options = Options { seats: 3, mode: Mode::Unordered, window: 8, ..options };
        let with_state = Options { keeps_state: true, ..options.clone() };
        let error = Group::found(&with_state).unwrap_err().to_string();
        assert!(error.contains("no common state"), "{error}");
        let first = Group::found(&options).unwrap();
        let ordered = Options { mode: Mode::Ordered, ..options.clone() };
        assert!(refusal(&ordered).contains("Ordered"), "both sides have to agree");
        let groups = [first, Group::join(&options).unwrap(), Group::join(&options).unwrap()];
        std::thread::scope(|scope| {
            for group in &groups {
                scope.spawn(move || {
                    for n in 0..N {
                        group.send_within(&n.to_le_bytes(), PATIENCE).unwrap();
                    }
                    assert_eq!(group.wait_delivered(N, PATIENCE), Ok(true));
                });
                scope.spawn(move || {
                    // A newcomer hears a sender from somewhere on.
                    let mut next = [None; 4];
                    while next[1..].iter().any(|next| *next != Some(N)) {
                        let (seat, n) = next_delivery(group);
                        assert!(next[seat].is_none_or(|next| next == n), "{next:?} {seat} {n}");
                        next[seat] = Some(n + 1);
                    }
                });
            }
        });
        let ended = groups.map(|one| one.close(PATIENCE));
        assert_eq!(ended, [Ok(()), Ok(()), Ok(())]);
    }
}

/// The sender's seat and the number in the next message that is delivered.
fn next_delivery(group: &Group) -> (usize, u64) {
    next(group, |event| match event {
        Event::Delivered(one) => {
            let bytes = one.bytes[..].try_into().expect("a number");
            Some((one.sender.seat, u64::from_le_bytes(bytes)))
        }
        Event::Ended(why) => panic!("{why}"),
        _ => None,
    })
}

#[test]
fn letters_come_in_the_order_of_their_writer_and_to_one_member_alone() {
    const N: u64 = 500;
    let directory = directory();
    for options in [shm(directory.path()), tcp(directory.path())] {
        let options = Options { seats: 3, ..options };
        let first = Group::found(&options).unwrap();
        let (second, third) = (Group::join(&options).unwrap(), Group::join(&options).unwrap());
        next_view(&first, 3);
        let long = vec![7; LETTER_BYTES_MAX];
        let refused = first.tell(second.me().seat, &[7; LETTER_BYTES_MAX + 1]);
        assert!(matches!(refused, Err(Refused::TooLong { .. })), "{refused:?}");
        assert_eq!(first.tell(second.me().seat, &long), Ok(()));
        assert_eq!((first.tell(0, b"nobody"), first.tell(9, b"nobody")), (Ok(()), Ok(())));
        let letter = |event| match event {
            Event::Letter { from, bytes } => Some((from, bytes)),
            Event::Ended(why) => panic!("{why}"),
            _ => None,
        };
        assert!(next(&second, letter) == (first.me(), long));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for n in 0..N {
                    while let Err(Refused::Busy { .. }) =
                        first.tell(second.me().seat, &n.to_le_bytes())
                    {
                        std::thread::yield_now();
                    }
                }
            });
            for n in 0..N {
                assert_eq!(next(&second, letter), (first.me(), n.to_le_bytes().to_vec()));
            }
        });
        first.send(b"to all").unwrap();
        let other = next(&third, |event| match event {
            Event::Letter { .. } => Some(false),
            Event::Delivered(one) => Some(&*one.bytes == b"to all"),
            _ => None,
        });
        assert!(other, "the third one was told nothing else");
        let ended = [third, second, first].map(|one| one.close(PATIENCE));
        assert_eq!(ended, [Ok(()), Ok(()), Ok(())]);
    }
}

#[test]
fn a_view_with_too_few_members_multicasts_nothing() {
    let directory = directory();
    let options = Options { adequate: 2, ..shm(directory.path()) };
    let group = Group::found(&options).unwrap();
    let members = next(&group, |event| match event {
        Event::Inadequate { members } => Some(members),
        _ => None,
    });
    assert_eq!(members, 1);
    assert_eq!(group.send(b"x"), Err(Refused::Inadequate { members: 1, adequate: 2 }));
    let other = Group::join(&options).unwrap();
    next_view(&group, 2);
    let number = group.send_within(b"x", PATIENCE).unwrap();
    assert_eq!(group.wait_delivered(number, PATIENCE), Ok(true));
    other.close(PATIENCE).unwrap();
    group.close(PATIENCE).unwrap();
}

/// V16: the third member takes nothing, so that messages wait when it is taken for failed.
#[test]
fn what_waits_in_a_view_with_too_few_members_is_sent_when_it_has_enough() {
    let directory = directory();
    let options = Options { window: 4, adequate: 3, ..shm(directory.path()) };
    let group = Group::found(&options).unwrap();
    let other = Group::join(&options).unwrap();
    let slow = Group::join(&Options { events: 8, ..options.clone() }).unwrap();
    next_view(&group, 3);
    let mut last = None;
    while let Ok(number) = group.send_within(&[1], Duration::from_millis(500)) {
        last = Some(number);
    }
    group.suspect(slow.me().seat);
    let is_small = |event| matches!(event, Event::Inadequate { members: 2 }).then_some(());
    next(&group, is_small);
    let third = Group::join(&options).unwrap();
    let mut n_delivered = 0;
    let view = next(&group, |event| {
        n_delivered += usize::from(matches!(event, Event::Delivered(_)));
        if let Event::View(view) = event { Some(view) } else { None }
    });
    assert_eq!((view.members.len(), n_delivered), (3, 0), "nothing is multicast in a view of two");
    let last = last.expect("a message was taken");
    assert_eq!(group.wait_delivered(last, PATIENCE), Ok(true));
    for member in [third, other, group] {
        member.close(PATIENCE).unwrap();
    }
}

/// V12, and the bound behind it: the others wait for a slow application, the view does not.
#[test]
fn an_application_that_takes_nothing_holds_messages_up_and_then_leaves() {
    let directory = directory();
    let options = Options { window: 4, ..shm(directory.path()) };
    let group = Group::found(&options).unwrap();
    let slow = Options { events: 8, patience: Duration::from_secs(3), ..options };
    let slow = Group::join(&slow).unwrap();
    next_view(&group, 2);
    // At most 8 events wait there, 4 messages in each ring and 4 on the board here.
    let mut n_sent = 0;
    let busy = loop {
        match group.send_within(&[1], Duration::from_millis(500)) {
            Ok(_) => n_sent += 1,
            Err(refused) => break refused,
        }
        assert!(n_sent <= 40, "the bounds do not hold");
    };
    assert_eq!(busy, Refused::Busy { waiting: 4 });
    // It beats all the while, and leaves when its own patience ends.
    let view = next_view(&group, 1);
    assert_eq!((view.left, view.failed), (vec![slow.me()], Vec::new()));
    assert_eq!(next_end(&slow), Ended::Sluggish(Duration::from_secs(3)));
    let number = group.send_within(&[2], PATIENCE).unwrap();
    assert_eq!(group.wait_delivered(number, PATIENCE), Ok(true), "the others go on");
    group.close(PATIENCE).unwrap();
}

/// N3: the span that a close is given is its own, however patient the process is otherwise.
#[test]
fn n3_what_was_sent_just_before_a_close_is_delivered() {
    const N: u8 = 200;
    let directory = directory();
    let options = Options { window: 256, ..shm(directory.path()) };
    let (group, other) = (Group::found(&options).unwrap(), Group::join(&options).unwrap());
    next_view(&group, 2);
    for n in 0..N {
        group.send_within(&[n], PATIENCE).unwrap();
    }
    assert_eq!(group.close(PATIENCE / 3), Ok(()));
    let mut heard = Vec::new();
    let view = next(&other, |event| match event {
        Event::Delivered(one) => {
            heard.push(one.bytes[0]);
            None
        }
        Event::View(view) if view.number > 2 => Some(view),
        _ => None,
    });
    assert_eq!((view.left.len(), view.failed.len()), (1, 0), "{view}");
    assert_eq!(heard, (0..N).collect::<Vec<u8>>());
    other.close(PATIENCE).unwrap();
}

/// N3: a process that leaves behind what it has sent is not told that all of it was delivered.
#[test]
fn n3_a_close_that_leaves_messages_behind_says_so() {
    let directory = directory();
    let options = Options { window: 4, ..shm(directory.path()) };
    let group = Group::found(&options).unwrap();
    let slow = Group::join(&Options { events: 8, ..options }).unwrap();
    next_view(&group, 2);
    while group.send_within(&[1], Duration::from_millis(500)).is_ok() {}
    // The last four are on the board, and the other application takes nothing.
    assert_eq!(group.close(Duration::from_secs(2)), Err(Ended::LeftInHaste));
    drop(slow);
}

#[test]
fn a_newcomer_gets_the_state_and_then_what_follows_it() {
    let directory = directory();
    let options = Options { keeps_state: true, ..shm(directory.path()) };
    let group = Group::found(&options).unwrap();
    let mut sum = 0;
    for n in 1..=10 {
        group.send_within(&[n], PATIENCE).unwrap();
    }
    std::thread::scope(|scope| {
        let newcomer = scope.spawn(|| {
            let other = Group::join(&options).unwrap();
            let mut sum = None;
            while sum != Some(110) {
                sum = Some(next(&other, |event| match event {
                    Event::State { bytes, .. } => Some(bytes[0]),
                    Event::Delivered(one) => {
                        Some(sum.expect("V9: the state comes first") + one.bytes[0])
                    }
                    _ => None,
                }));
            }
            other.close(PATIENCE).unwrap();
        });
        while !newcomer.is_finished() {
            match group.next(Duration::from_millis(20)) {
                Some(Event::Delivered(one)) => sum += one.bytes[0],
                Some(Event::StateWanted(wanted)) => group.give(wanted, vec![sum]),
                Some(Event::View(view)) if view.members.len() == 2 => {
                    group.send_within(&[55], PATIENCE).unwrap();
                }
                Some(Event::Ended(why)) => panic!("{why}"),
                _ => {}
            }
        }
    });
    group.close(PATIENCE).unwrap();
}

#[test]
fn a_member_that_is_suspected_by_name_is_excluded() {
    let directory = directory();
    let options = shm(directory.path());
    let group = Group::found(&options).unwrap();
    let others = [Group::join(&options).unwrap(), Group::join(&options).unwrap()];
    next_view(&group, 3);
    group.suspect(3);
    let view = next_view(&group, 2);
    assert_eq!(view.failed, [others[1].me()]);
    assert_eq!(next_end(&others[1]), Ended::Excluded);
    assert_eq!(others[1].send(b"x"), Err(Refused::Ended(Ended::Excluded)));
    assert_eq!(others[1].next(PATIENCE), None, "nothing follows the end");
}

#[test]
fn v33_a_process_that_has_given_up_is_not_let_in() {
    let directory = directory();
    let options = Options { keeps_state: true, ..shm(directory.path()) };
    let founder = Group::found(&options).unwrap();
    // (The founder's application makes no state, so the third process is not let in.)
    let second = Group::join(&options).unwrap();
    let hasty = Options { patience: Duration::from_secs(1), ..options };
    let third = Group::join(&hasty);
    assert!(matches!(third, Err(Error::NoAnswer { .. })), "{third:?}");
    assert_eq!(second.close(PATIENCE), Ok(()));
    next_view(&founder, 2);
    let view =
        next(&founder, |event| if let Event::View(view) = event { Some(view) } else { None });
    assert_eq!(view.members.len(), 1, "{view}");
}

#[test]
fn e4_a_newcomer_that_waits_for_the_state_has_not_caught_up() {
    let directory = directory();
    let options = Options { keeps_state: true, ..shm(directory.path()) };
    let founder = Group::found(&options).unwrap();
    let newcomer = Group::join(&options).unwrap();
    let wanted = next(&founder, |event| match event {
        Event::StateWanted(wanted) => Some(wanted),
        _ => None,
    });
    newcomer.catch_up(0, 7).unwrap();
    newcomer.tell(founder.me().seat, b"asked").unwrap();
    next(&founder, |event| matches!(event, Event::Letter { .. }).then_some(()));
    founder.give(wanted, b"state".to_vec());
    let heard = |event| match event {
        Event::State { .. } => Some("the state"),
        Event::CaughtUp { token: 7, .. } => Some("it has caught up"),
        _ => None,
    };
    assert_eq!([next(&newcomer, heard), next(&newcomer, heard)], ["the state", "it has caught up"]);
}

#[test]
fn a_read_of_a_subgroup_that_does_not_exist_is_told_nothing_and_ends_no_process() {
    let directory = directory();
    let group = Group::found(&shm(directory.path())).unwrap();
    group.catch_up(9, 1).unwrap();
    group.look_ahead(9, 2).unwrap();
    let heard = |event| match event {
        Event::Ahead { token: 2, messages } => Some(format!("ahead: {}", messages.len())),
        Event::CaughtUp { token, .. } => Some(format!("caught up: {token}")),
        Event::Ended(why) => Some(format!("ended: {why}")),
        _ => None,
    };
    assert_eq!(next(&group, heard), "ahead: 0");
    group.catch_up(0, 3).unwrap();
    assert_eq!(next(&group, heard), "caught up: 3", "there was nothing of the first one");
    group.close(PATIENCE).unwrap();
}
