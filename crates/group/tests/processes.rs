//! Real processes of a group, on both fabrics: they join, leave, are killed, stopped and cut off
//! while they multicast; what they wrote down is judged afterwards.
//!
//! The test binary starts itself again, one process a member ([`child`]); the processes, their
//! wires and their parent are those of the example `members`.

#[path = "../examples/members/company.rs"]
mod company;
#[path = "common/ends.rs"]
mod ends;
#[path = "common/judge.rs"]
mod judge;
#[path = "../examples/members/member.rs"]
mod member;
#[path = "../examples/members/ports.rs"]
mod ports;
#[path = "../examples/members/relay.rs"]
mod relay;

use company::{Company, ROLE};
use ends::{dismiss, is_end};
use judge::Logs;

const CHILD: &[&str] = &["--exact", "child", "--nocapture", "--test-threads=1"];
/// The silence after which a member is suspected: longer than a process waits for its turn on a
/// machine with other work.
const SUSPECT_MS: u64 = 2000;
/// The number of deliveries between two events of a test.
const N_BETWEEN: u64 = 200;

/// The entry of the processes that the other tests start; not a test of its own.
#[test]
fn child() {
    if let Ok(role) = std::env::var(ROLE) {
        member::run(&role);
    }
}

/// A group of processes on `seats`, the first of which founded it, that chat.
fn chatting(transport: &str, seats: &[usize]) -> Company {
    let mut company = Company::new(transport, SUSPECT_MS, CHILD);
    for n in 0..seats.len() {
        company.start(seats[n], n == 0);
        company.await_view(&seats[..=n]);
        company.tell(seats[n], "chat");
    }
    company
}

/// Waits until the process on `seat` has delivered some more.
fn let_chat(company: &Company, seat: usize) {
    judge::await_deliveries(company.directory.path(), seat, N_BETWEEN, company::PATIENCE);
}

/// Ends the chat, lets all of `seats` leave in turn, and judges what everyone wrote down.
fn finish(mut company: Company, seats: &[usize]) -> Logs {
    dismiss(&mut company, seats);
    let logs = Logs::read(company.directory.path());
    logs.judge();
    logs
}

fn members_come_and_go(transport: &str) {
    let mut company = chatting(transport, &[1, 2, 3]);
    let_chat(&company, 1);
    company.start(4, false);
    company.start(5, false);
    company.await_view(&[1, 2, 3, 4, 5]);
    company.tell(4, "chat");
    company.tell(5, "chat");
    let_chat(&company, 5);
    company.tell(2, "leave");
    let line = company.await_line(2, "end", is_end);
    assert!(line.contains("left, as it was asked to"), "{line}");
    company.await_view(&[1, 3, 4, 5]);
    let_chat(&company, 3);
    company.signal(1, "KILL");
    company.await_view(&[3, 4, 5]);
    let_chat(&company, 4);
    company.signal(5, "STOP");
    company.await_view(&[3, 4]);
    let_chat(&company, 3);
    // The stopped process still has its seat; that of the killed one is free.
    company.start(1, false);
    company.await_view(&[1, 3, 4]);
    company.signal(5, "CONT");
    let line = company.await_line(5, "end", is_end);
    assert!(line.contains("excluded"), "{line}");
    let_chat(&company, 1);
    let logs = finish(company, &[4, 1, 3]);
    assert_eq!(logs.n_processes(), 6, "one process had the seat of another");
}

#[test]
fn members_come_and_go_on_shm() {
    members_come_and_go("shm");
}

#[test]
fn members_come_and_go_on_tcp() {
    members_come_and_go("tcp");
}

/// The two that are cut off stop, and are told why; the others continue, and take them in again.
#[test]
fn a_minority_that_is_cut_off_stops() {
    let mut company = chatting("tcp", &[1, 2, 3, 4, 5]);
    let_chat(&company, 2);
    assert!(company.cut(&[1, 4], true));
    company.await_view(&[2, 3, 5]);
    for seat in [1, 4] {
        let line = company.await_line(seat, "end", is_end);
        assert!(line.contains("no majority of the view can be reached"), "seat {seat}: {line}");
    }
    let_chat(&company, 3);
    company.cut(&[1, 4], false);
    company.start(4, false);
    company.start(1, false);
    company.await_view(&[1, 2, 3, 4, 5]);
    company.tell(4, "chat");
    let_chat(&company, 4);
    finish(company, &[5, 4, 3, 2, 1]);
}

/// Members relay large messages, while one dies and another one is cut off in the middle of them.
#[test]
fn large_messages_are_relayed_while_members_fail() {
    let mut company = chatting("large-tcp", &[1, 2, 3, 4, 5, 6]);
    let_chat(&company, 6);
    for seat in 1..=6 {
        company.tell(seat, "relayed");
        let line = company.await_line(seat, "count", |line| line.starts_with("relayed"));
        assert_ne!(line, "relayed 0 blocks", "seat {seat}");
    }
    company.signal(3, "KILL");
    company.await_view(&[1, 2, 4, 5, 6]);
    let_chat(&company, 1);
    assert!(company.cut(&[2], true));
    company.await_view(&[1, 4, 5, 6]);
    company.await_line(2, "end", is_end);
    company.cut(&[2], false);
    let_chat(&company, 4);
    company.start(3, false);
    company.await_view(&[1, 3, 4, 5, 6]);
    company.tell(3, "chat");
    let_chat(&company, 3);
    finish(company, &[1, 3, 4, 5, 6]);
}

/// A crowd joins at once, and a third of the members, the eldest among them, dies at once.
fn a_crowd_comes_and_a_part_of_it_dies(transport: &str) {
    let all: Vec<usize> = (1..=company::SEATS).collect();
    let (dead, rest) = all.split_at(all.len() / 3);
    let mut company = chatting(transport, &[1]);
    for seat in &all[1..] {
        company.start(*seat, false);
    }
    company.await_view(&all);
    for seat in &all[1..] {
        company.tell(*seat, "chat");
    }
    let_chat(&company, all.len());
    for seat in dead {
        company.signal(*seat, "KILL");
    }
    company.await_view(rest);
    let_chat(&company, all.len());
    finish(company, rest);
}

#[test]
fn a_crowd_comes_and_a_part_of_it_dies_on_shm() {
    a_crowd_comes_and_a_part_of_it_dies("shm");
}

#[test]
fn a_crowd_comes_and_a_part_of_it_dies_on_tcp() {
    a_crowd_comes_and_a_part_of_it_dies("tcp");
}

/// On tcp a refused connection tells the death, whichever seat it is on, long before the silence.
#[test]
fn a_death_on_tcp_is_known_without_silence() {
    let mut company = Company::new("plain-tcp", 3_600_000, CHILD);
    for n in 1..=5 {
        company.start(n, n == 1);
        company.await_view(&[1, 2, 3, 4, 5][..n]);
    }
    company.signal(5, "KILL");
    company.await_view(&[1, 2, 3, 4]);
    company.signal(1, "KILL");
    company.await_view(&[2, 3, 4]);
    company.start(1, false);
    company.await_view(&[1, 2, 3, 4]);
}

/// A view of two survives no failure: the other one stops, though it is not at fault.
#[test]
fn half_of_a_view_of_two_stops() {
    let mut company = chatting("shm", &[1, 2]);
    let_chat(&company, 2);
    company.signal(1, "KILL");
    let line = company.await_line(2, "end", is_end);
    assert!(line.contains("no majority of the view can be reached"), "{line}");
    Logs::read(company.directory.path()).judge();
    // The group is over, so it can be founded again, on any seat.
    company.start(2, true);
    company.await_view(&[2]);
    company.start(1, false);
    company.await_view(&[1, 2]);
}

/// Many rounds, each with something that befalls a member and a process that takes its seat.
fn many_rounds(transport: &str, n_rounds: usize, seed: u64) {
    let seats = [1, 2, 3, 4, 5];
    let mut company = chatting(transport, &seats);
    let mut rng = base::Rng::new(seed);
    for _ in 0..n_rounds {
        let seat = seats[rng.below(5) as usize];
        let rest: Vec<usize> = seats.into_iter().filter(|one| *one != seat).collect();
        let_chat(&company, rest[0]);
        match rng.below(4) {
            0 => {
                company.tell(seat, "leave");
                company.await_line(seat, "end", is_end);
                company.await_view(&rest);
            }
            1 => {
                company.signal(seat, "STOP");
                company.await_view(&rest);
                company.signal(seat, "CONT");
                company.await_line(seat, "end", is_end);
            }
            2 if company.cut(&[seat], true) => {
                company.await_view(&rest);
                company.await_line(seat, "end", is_end);
                company.cut(&[seat], false);
            }
            _ => {
                company.signal(seat, "KILL");
                company.await_view(&rest);
            }
        }
        company.await_exit(seat);
        company.start(seat, false);
        company.await_view(&seats);
        company.tell(seat, "chat");
    }
    let logs = finish(company, &seats);
    assert_eq!(logs.n_processes(), seats.len() + n_rounds);
}

#[test]
fn members_come_and_go_for_some_rounds() {
    many_rounds("shm", 5, 3);
    many_rounds("tcp", 5, 4);
}

#[test]
#[ignore = "minutes: cargo test -p gregale-group --test processes -- --ignored"]
fn members_come_and_go_for_many_rounds() {
    many_rounds("shm", 100, 1);
    many_rounds("tcp", 100, 2);
}
