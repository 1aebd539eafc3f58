//! Real processes of a group with subgroups, on both fabrics: they are killed, stopped, leave and
//! come while they multicast in the shards that they are in; what each wrote down of each shard is
//! judged afterwards, as if the shard were a group.
//!
//! The seats decide the shards here, so that a process is in the same ones for as long as it lives.

#[path = "../examples/members/company.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod company;
#[path = "common/ends.rs"]
mod ends;
#[path = "common/judge.rs"]
mod judge;
#[path = "../examples/members/member.rs"]
#[expect(dead_code, reason = "the example uses the rest")]
mod member;
#[path = "../examples/members/ports.rs"]
mod ports;
#[path = "../examples/members/relay.rs"]
mod relay;

use company::{Company, PATIENCE, ROLE};
use ends::{dismiss, is_end};
use group::{Event, Group, Options, Refused, ShardId, Subgroup, View};
use judge::Logs;
use member::{read_input, say};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::mpsc::TryRecvError;
use std::time::Duration;

const CHILD: &[&str] = &["--exact", "child", "--nocapture", "--test-threads=1"];
const SUSPECT_MS: u64 = 2000;
/// The number of deliveries between two events of a test.
const N_BETWEEN: u64 = 200;
/// The shards: all, and those on the first seats and the rest.
const SHARDS: [ShardId; 3] = [shard(0, 0), shard(1, 0), shard(1, 1)];

const fn shard(subgroup: u16, shard: u16) -> ShardId {
    ShardId { subgroup, shard }
}

fn layout() -> Vec<Subgroup> {
    vec![Subgroup::new("all"), Subgroup::new("halves").seats(&[&[1, 2, 5], &[3, 4, 6, 7]])]
}

/// The place of what is written down of a shard.
fn place(directory: &Path, id: ShardId) -> PathBuf {
    directory.join(id.to_string())
}

/// The entry of the processes that the other tests start; not a test of its own.
#[test]
fn child() {
    if let Ok(role) = std::env::var(ROLE) {
        run(&role);
    }
}

/// A process's part in one shard.
struct Part {
    log: File,
    n_sent: u64,
    n_own: u64,
}

fn run(words: &str) {
    let (founds, options) = member::options(words);
    let options = Options { layout: layout(), ..options };
    let opened = if founds { Group::found(&options) } else { Group::join(&options) };
    let group = opened.unwrap_or_else(|error| panic!("refused: {error}"));
    let directory = options.directory.parent().expect("it was joined to one");
    let input = read_input();
    let (mut parts, mut chats, mut is_hushed) = (BTreeMap::new(), true, false);
    loop {
        match group.next(Duration::from_millis(5)) {
            Some(Event::View(view)) => begin(&group, &view, directory, &mut parts),
            Some(Event::Delivered(one)) => {
                let part: &mut Part = parts.get_mut(&one.shard).expect("its own shard");
                let text = String::from_utf8_lossy(&one.bytes);
                let (seat, incarnation) = (one.sender.seat, one.sender.incarnation);
                let own = one.own.unwrap_or(0);
                let (view, sequence) = (one.view, one.sequence);
                let line = format!("D {view} {sequence} {seat} {incarnation} {own} {text}\n");
                part.log.write_all(line.as_bytes()).expect("there is room");
                part.n_own = part.n_own.max(own);
            }
            Some(Event::Ended(why)) => return say(&format!("ended: {why}")),
            // The second half has no member yet.
            Some(Event::InadequateSubgroup { .. }) | None => {}
            Some(other) => panic!("{other:?}"),
        }
        for (id, part) in parts.iter_mut().filter(|(_, part)| chats && part.n_sent == part.n_own) {
            send(&group, *id, part);
        }
        // What is on its way when the other half ends is never delivered.
        if !chats && !is_hushed && parts.values().all(|part| part.n_sent == part.n_own) {
            is_hushed = true;
            say("hushed");
        }
        match input.try_recv() {
            Ok(line) if line == "hush" => chats = false,
            Ok(_) | Err(TryRecvError::Disconnected) => group.leave(PATIENCE),
            Err(TryRecvError::Empty) => {}
        }
    }
}

fn begin(group: &Group, view: &View, directory: &Path, parts: &mut BTreeMap<ShardId, Part>) {
    let me = group.me();
    for shard in view.shards.iter().filter(|shard| shard.members.contains(&me)) {
        let part = parts.entry(shard.id).or_insert_with(|| {
            let place = place(directory, shard.id);
            std::fs::create_dir_all(&place).expect("the parent made the directory");
            let log = File::create(place.join(format!("log-{}-{}", me.seat, me.incarnation)));
            Part { log: log.expect("there is room"), n_sent: 0, n_own: 0 }
        });
        // In one write: a process that is killed leaves whole lines.
        let line = format!("V {}\n", view.number);
        part.log.write_all(line.as_bytes()).expect("there is room");
    }
    say(&view.to_string());
}

fn send(group: &Group, id: ShardId, part: &mut Part) {
    let text = format!("{}.{}", group.me().seat, part.n_sent + 1);
    // Before it is sent: others may have it before this process does anything more.
    part.log.write_all(format!("S {text}\n").as_bytes()).expect("there is room");
    match group.send_in(id, text.as_bytes(), Duration::ZERO) {
        Ok(number) => part.n_sent = number,
        Err(Refused::Leaving | Refused::Ended(_) | Refused::InadequateSubgroup { .. }) => {}
        Err(refused) => panic!("not sent: {refused}"),
    }
}

/// Waits until the process on `seat` has delivered some more, in its half and of all.
fn let_chat(company: &Company, seat: usize) {
    let half = if [1, 2, 5].contains(&seat) { SHARDS[1] } else { SHARDS[2] };
    for id in [SHARDS[0], half] {
        judge::await_deliveries(&place(company.directory.path(), id), seat, N_BETWEEN, PATIENCE);
    }
}

fn members_come_and_go(transport: &str) {
    let mut company = Company::new(transport, SUSPECT_MS, CHILD);
    let seats = [1, 3, 2, 4, 5];
    for n in 0..seats.len() {
        company.start(seats[n], n == 0);
        let mut there = seats[..=n].to_vec();
        there.sort_unstable();
        company.await_view(&there);
    }
    seats.iter().for_each(|seat| let_chat(&company, *seat));
    // One half loses its eldest member, the other a member that is stopped.
    company.signal(1, "KILL");
    company.await_view(&[2, 3, 4, 5]);
    let_chat(&company, 2);
    company.signal(4, "STOP");
    company.await_view(&[2, 3, 5]);
    let_chat(&company, 3);
    company.start(1, false);
    company.start(6, false);
    company.await_view(&[1, 2, 3, 5, 6]);
    company.signal(4, "CONT");
    let line = company.await_line(4, "end", is_end);
    assert!(line.contains("excluded"), "{line}");
    let_chat(&company, 6);
    company.tell(3, "leave");
    let line = company.await_line(3, "end", is_end);
    assert!(line.contains("left, as it was asked to"), "{line}");
    company.await_view(&[1, 2, 5, 6]);
    let_chat(&company, 1);
    finish(company, &[6, 1, 2, 5]);
}

/// Ends the chat, lets all of `seats` leave in turn, and judges each shard.
fn finish(mut company: Company, seats: &[usize]) {
    dismiss(&mut company, seats);
    let judged = SHARDS.map(|id| {
        let logs = Logs::read(&place(company.directory.path(), id));
        logs.judge();
        logs.n_processes()
    });
    assert_eq!(judged, [7, 4, 3], "processes that were in each shard");
}

#[test]
fn members_of_shards_come_and_go_on_shm() {
    members_come_and_go("shm");
}

#[test]
fn members_of_shards_come_and_go_on_tcp() {
    members_come_and_go("tcp");
}
