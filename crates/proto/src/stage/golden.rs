//! Golden scripts: what a protocol does, step by step, as text that a reviewer can read.
//!
//! A script is a file in a protocol's folder: a comment (`#`), commands, and below each command
//! what it makes the members do, indented. A test runs the commands and compares; with
//! `UPDATE_GOLDEN` set (`cargo xtask fix --golden`) it writes what it saw instead.
//!
//! Commands of a log: `lead M`, `follow M`, `propose M VALUE`, `read M`, `run N` (so many rounds of
//! a millisecond), `hold A B` and `release A B` (what A posts to B), `lose A B`, `kill M` (the
//! process; its memory and disk stay), `return M`.

extern crate std;

use super::{Effect, Fate, Verb, View, World, shown};
use crate::node::{NodeConfig, Start, Timing};
use crate::planted::Sound;
use crate::registry::LogSpec;
use crate::stage::disk::TestDisk;
use crate::{LogShape, Note, Replicator, Ticket};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use base::{At, Event, Instant, Rank};
use core::time::Duration;

/// The words of a command.
pub(crate) type Words<'a> = [&'a str];

/// Runs each command of the script at `path` (from the crate's root) and compares what it tells.
///
/// # Panics
/// If the script says something else, unless `UPDATE_GOLDEN` is set.
pub(crate) fn check(path: &str, mut run: impl FnMut(&Words<'_>) -> Vec<String>) {
    let path = format!("{}/src/{path}", env!("CARGO_MANIFEST_DIR"));
    let before = std::fs::read_to_string(&path).unwrap_or_else(|why| panic!("{path}: {why}"));
    let mut after = String::new();
    for line in before.lines().filter(|line| !line.starts_with(' ')) {
        after += &format!("{line}\n");
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.first().is_none_or(|word| word.starts_with('#')) {
            continue;
        }
        run(&words).iter().for_each(|told| after += &format!("  {told}\n"));
    }
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, after).unwrap_or_else(|why| panic!("{path}: {why}"));
    } else if let Some((said, is)) = first_difference(&before, &after) {
        panic!(
            "{path} says:\n{said}\nand the protocol does:\n{is}\nIf that is meant: cargo xtask fix --golden"
        );
    }
}

/// The first lines that differ.
fn first_difference<'a>(before: &'a str, after: &'a str) -> Option<(&'a str, &'a str)> {
    let n_lines = before.lines().count().max(after.lines().count());
    let line = |text: &'a str, n: usize| text.lines().nth(n).unwrap_or("(the end)");
    (0..n_lines).map(|n| (line(before, n), line(after, n))).find(|(said, is)| said != is)
}

/// The number that a command names.
pub(crate) fn number(words: &Words<'_>, at: usize) -> usize {
    let word = words.get(at).unwrap_or_else(|| panic!("{words:?}: a number is missing"));
    word.parse().unwrap_or_else(|why| panic!("{words:?}: {why}"))
}

/// A protocol whose verbs a reader can follow.
pub(crate) trait Readable: LogSpec {
    /// Whether members have disks.
    const HAS_DISKS: bool = false;

    /// The name of the place, and what `words` there mean.
    fn place(at: At, words: &[u64]) -> String;

    /// What a message says.
    fn message(bytes: &[u8]) -> String;
}

pub(crate) const SHAPE: LogShape = LogShape { ring_slots: 16, value_bytes: 64 };
pub(crate) const N_MEMBERS: usize = 3;

/// Three members that a script steps.
struct Script<S: LogSpec> {
    world: World,
    machines: Vec<Option<S::Machine<Sound>>>,
    now: Instant,
    n_reads: u64,
}

/// Checks the script at `path` for a protocol that replicates a log.
pub(crate) fn check_log<S: Readable>(path: &str) {
    let mut script = Script::<S>::new();
    script.world.take_effects();
    check(path, |words| {
        script.run(words);
        script.world.take_effects().iter().map(told::<S>).collect()
    });
}

impl<S: Readable> Script<S> {
    fn new() -> Script<S> {
        let mut world = World::new(N_MEMBERS, S::layout(N_MEMBERS, &SHAPE).n_words as usize);
        if S::HAS_DISKS {
            world.disks.resize_with(N_MEMBERS, TestDisk::default);
        }
        let mut script = Script { world, machines: Vec::new(), now: Instant(1), n_reads: 0 };
        script.machines.resize_with(N_MEMBERS, || None);
        (0..N_MEMBERS).for_each(|me| script.start(me, Start::Bootstrap));
        (0..N_MEMBERS).for_each(|me| script.meet(me));
        script.rounds(2);
        script
    }

    fn start(&mut self, me: usize, start: Start) {
        let config = NodeConfig {
            me: Rank::at(me),
            members: N_MEMBERS,
            start,
            timing: Timing::default(),
            memory_outlives_process: S::DEAD_MEMORY_COUNTS,
            peer_works: true,
        };
        let mut view = View { world: &mut self.world, me };
        let machine =
            S::start(&config, &SHAPE, Sound, &mut view).expect("all that it needs is here");
        self.machines[me] = Some(machine);
    }

    fn meet(&mut self, me: usize) {
        for peer in Rank::all(N_MEMBERS) {
            self.act(me, |machine, now, view| machine.on_event(Event::LinkUp(peer), now, view));
        }
    }

    fn act<T>(
        &mut self,
        me: usize,
        act: impl FnOnce(&mut S::Machine<Sound>, Instant, &mut View<'_>) -> T,
    ) -> T {
        let machine = self.machines[me].as_mut().expect("the process lives");
        act(machine, self.now, &mut View { world: &mut self.world, me })
    }

    fn rounds(&mut self, n: usize) {
        for _ in 0..n {
            self.now = self.now.plus(Duration::from_millis(1));
            for me in (0..N_MEMBERS).filter(|me| self.machines[*me].is_some()).collect::<Vec<_>>() {
                let inbox = core::mem::take(&mut self.world.inboxes[me]);
                for event in inbox.iter() {
                    self.act(me, |machine, now, view| machine.on_event(event, now, view));
                }
                while let Some(flush) = self.world.disks.get_mut(me).and_then(TestDisk::end_sync) {
                    let synced = crate::disk::DiskEvent::Synced(flush);
                    self.act(me, |machine, now, view| machine.on_disk(synced, now, view));
                }
                self.act(me, |machine, now, view| machine.poll(now, view));
            }
        }
    }

    fn run(&mut self, words: &Words<'_>) {
        let at = |at: usize| number(words, at);
        match words[0] {
            "lead" => self.act(at(1), |machine, now, view| machine.lead(now, view)),
            "follow" => self.act(at(1), |machine, now, view| machine.follow(now, view)),
            "propose" => {
                let value = words.get(2).expect("propose M VALUE").as_bytes();
                let slot = self.act(at(1), |machine, now, view| machine.propose(value, now, view));
                slot.expect("the member leads, and has room");
            }
            "read" => {
                self.n_reads += 1;
                let ticket = Ticket(self.n_reads);
                self.act(at(1), |machine, now, view| machine.read(ticket, now, view));
            }
            "run" => self.rounds(at(1)),
            "hold" => self.world.held.push((at(1), at(2))),
            "release" => {
                self.world.held.retain(|way| *way != (at(1), at(2)));
                self.world.let_through(at(1), at(2), usize::MAX);
            }
            "lose" => self.world.lose(at(1), at(2)),
            "kill" => {
                self.machines[at(1)] = None;
                self.world.inboxes[at(1)].clear();
            }
            "return" => {
                self.start(at(1), Start::Reattach);
                self.meet(at(1));
            }
            _ => panic!("{words:?}: no such command"),
        }
    }
}

fn told<S: Readable>(effect: &Effect) -> String {
    match effect {
        Effect::Delivered(me, slot, value) => {
            format!("{me}       delivers {slot}: {}", shown(value))
        }
        Effect::Noted(me, Note::Leading { ballot }) => format!("{me}       leads in {ballot}"),
        Effect::Noted(me, Note::Deposed { ballot }) => {
            format!("{me}       leads no longer in {ballot}")
        }
        Effect::Noted(me, Note::ReadReady(_)) => format!("{me}       may answer the read"),
        Effect::Noted(me, Note::ReadRefused(_)) => format!("{me}       refuses the read"),
        Effect::Noted(me, Note::NeedState(prefix)) => {
            format!("{me}       needs a state of {prefix}")
        }
        Effect::Verb(from, to, verb, fate) => {
            let what = match verb {
                Verb::Write { at, words, .. } => format!("WRITE {}", S::place(*at, words)),
                Verb::Read { at, .. } => format!("READ  {}", S::place(*at, &[])),
                Verb::Cas { at, expected, desired, .. } => {
                    let from = S::place(*at, &[*expected]);
                    let to = S::place(*at, &[*desired]);
                    let to = to.split_once(": ").map_or("", |(_, word)| word);
                    format!("CAS   {from} to {to}")
                }
                Verb::Message(bytes) => format!("sends {}", S::message(bytes)),
            };
            let end = match fate {
                Fate::Done => "",
                Fate::Failed => ": fails",
                Fate::Refused => ": refused",
            };
            format!("{from} to {to}  {what}{end}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canary_a_script_that_says_something_else_is_found() {
        let same = "lead 0\n  0 leads\n";
        assert_eq!(first_difference(same, same), None);
        let shorter = first_difference(same, "lead 0\n");
        assert_eq!(shorter, Some(("  0 leads", "(the end)")));
        assert!(first_difference(same, "lead 0\n  0 follows\n").is_some());
    }
}
