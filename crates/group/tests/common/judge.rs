//! The judge of what the processes of a group wrote down (`examples/members/member.rs`).
//!
//! - J1 *One order.* A place of a view has one message, at every process; a process delivers in
//!   the order of places, and no view twice.
//! - J2 *Sender order.* A process delivers the messages of each sender in the order in which they
//!   were sent, without a gap, in all views; from the first one on, unless it came later.
//! - J3 *Virtual synchrony.* Processes that install a view and the next one have delivered the same
//!   messages between the two.
//! - J4 *Nothing acknowledged is lost.* What its sender has delivered, every process has that was
//!   in the view and has installed the next, or has delivered anything behind it.
//! - J5 *Nothing is made up.* What is delivered was sent, by the process that it is said to be of.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A process: its seat and its incarnation.
type Id = (usize, u64);
/// A place: the view, and the place in its order.
type Place = (u64, u64);
/// A message: its sender, and its text.
type Said = (Id, String);

/// What one process wrote down.
#[derive(Clone, Debug, Default)]
struct Log {
    views: Vec<u64>,
    delivered: Vec<(Place, Said)>,
    sent: Vec<String>,
}

/// What all processes wrote down.
#[derive(Clone, Debug, Default)]
pub(crate) struct Logs(BTreeMap<Id, Log>);

fn files(directory: &Path) -> Vec<(Id, PathBuf)> {
    let files = std::fs::read_dir(directory).expect("the directory of the group");
    let paths = files.map(|file| file.expect("it can be listed").path());
    let named = paths.filter_map(|path| {
        let name = path.file_name()?.to_str()?.strip_prefix("log-")?;
        let (seat, incarnation) = name.split_once('-')?;
        Some(((seat.parse().ok()?, incarnation.parse().ok()?), path.clone()))
    });
    named.collect()
}

/// The bytes of a delivery, at least.
const LINE_BYTES: u64 = 24;

/// Waits until the latest process on `seat` has written some `n` deliveries more.
pub(crate) fn await_deliveries(directory: &Path, seat: usize, n: u64, patience: Duration) {
    let by = Instant::now() + patience;
    let of_seat = files(directory).into_iter().filter(|(id, _)| id.0 == seat).max();
    let (_, path) = of_seat.expect("the process has begun");
    let n_written = || path.metadata().expect("the file of the process is there").len();
    let before = n_written();
    while n_written() < before + n * LINE_BYTES {
        assert!(Instant::now() < by, "seat {seat} has not delivered {n} messages more");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

impl Logs {
    /// Reads all files.
    pub(crate) fn read(directory: &Path) -> Logs {
        let read = |(id, path): (Id, PathBuf)| {
            let text = std::fs::read_to_string(path).expect("its file can be read");
            (id, Log::of(&text))
        };
        Logs(files(directory).into_iter().map(read).collect())
    }

    pub(crate) fn n_processes(&self) -> usize {
        self.0.len()
    }

    /// Panics with the first promise that was broken.
    pub(crate) fn judge(&self) {
        self.check().unwrap_or_else(|broken| panic!("{broken}"));
        let n_delivered: usize = self.0.values().map(|log| log.delivered.len()).sum();
        assert!(n_delivered > 0, "there was nothing to judge");
    }

    fn check(&self) -> Result<(), String> {
        let mut order: BTreeMap<Place, &Said> = BTreeMap::new();
        for (id, log) in &self.0 {
            if !log.views.windows(2).all(|pair| pair[0] + 1 == pair[1]) {
                return Err(format!("J1: {id:?} installed the views {:?}", log.views));
            }
            for pair in log.delivered.windows(2) {
                if pair[0].0 >= pair[1].0 {
                    return Err(format!("J1: {id:?} delivered {pair:?}"));
                }
            }
            for (place, said) in &log.delivered {
                let first = *order.entry(*place).or_insert(said);
                if first != said {
                    return Err(format!("J1: at {place:?} {id:?} has {said:?}, others {first:?}"));
                }
            }
        }
        self.check_senders()?;
        self.check_survivors(&order)
    }

    /// J2, J5
    fn check_senders(&self) -> Result<(), String> {
        // What was refused was written down, and is written again when it is sent.
        let mut sent: BTreeMap<(Id, &str), usize> = BTreeMap::new();
        for (id, log) in &self.0 {
            let mut n = 0;
            for text in &log.sent {
                sent.entry((*id, text)).or_insert_with(|| {
                    n += 1;
                    n - 1
                });
            }
        }
        for (id, log) in &self.0 {
            let mut last: BTreeMap<Id, usize> = BTreeMap::new();
            for (place, (sender, text)) in &log.delivered {
                let Some(at) = sent.get(&(*sender, text.as_str())).copied() else {
                    return Err(format!(
                        "J5: {id:?} delivered {text:?} of {sender:?} at {place:?}"
                    ));
                };
                let was_there = log.views.first() <= self.0[sender].views.first();
                let due = last.insert(*sender, at).map(|last| last + 1);
                let due = due.or(was_there.then_some(0));
                if due.is_some_and(|due| due != at) {
                    return Err(format!(
                        "J2: {id:?} delivered number {at} of {sender:?} at {place:?}, not {due:?}"
                    ));
                }
            }
        }
        Ok(())
    }

    /// J3, J4. (What any process has delivered, its sender may have: it is acknowledged.)
    fn check_survivors(&self, order: &BTreeMap<Place, &Said>) -> Result<(), String> {
        for (id, log) in &self.0 {
            let (Some(first), Some(last)) = (log.views.first(), log.views.last()) else { continue };
            let end = log.delivered.last().map(|(place, _)| *place).max(Some((*last, 0)));
            let own: BTreeSet<Place> = log.delivered.iter().map(|(place, _)| *place).collect();
            let from = (*first, 0);
            let missing = order.range(from..end.unwrap_or(from)).find(|(at, _)| !own.contains(at));
            if let Some((place, said)) = missing {
                return Err(format!("J3, J4: {id:?} has not delivered {said:?} at {place:?}"));
            }
        }
        Ok(())
    }
}

impl Log {
    /// The last line of a process that was killed may be cut.
    fn of(text: &str) -> Log {
        let mut log = Log::default();
        for line in text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')) {
            let words: Vec<&str> = line.split(' ').collect();
            let number = |word: &str| word.parse().unwrap_or_else(|_| panic!("{line:?}"));
            match words[..] {
                ["V", view] => log.views.push(number(view)),
                ["S", text] => log.sent.push(text.to_owned()),
                ["D", view, sequence, seat, incarnation, _, text] => {
                    let sender = (number(seat) as usize, number(incarnation));
                    let place = (number(view), number(sequence));
                    log.delivered.push((place, (sender, text.to_owned())));
                }
                _ => panic!("{line:?}"),
            }
        }
        log
    }
}

mod tests {
    use super::*;

    fn logs(texts: &[&str]) -> Logs {
        let of = |(at, text): (usize, &&str)| ((at + 1, 7), Log::of(text));
        Logs(texts.iter().enumerate().map(of).collect())
    }

    const ONE: &str = "V 1\nV 2\nS a\nD 2 0 1 7 1 a\nD 2 1 2 7 0 b\nV 3\nD 3 0 2 7 0 c\n";
    const TWO: &str = "V 2\nS b\nD 2 0 1 7 0 a\nD 2 1 2 7 1 b\nS c\nV 3\n";

    #[test]
    fn the_judge_sees_what_is_wrong() {
        assert_eq!(logs(&[ONE, TWO]).check(), Ok(()));
        let broken = |one: &str, two: &str| logs(&[one, two]).check().unwrap_err()[..2].to_owned();
        assert_eq!(broken(&ONE.replace("D 3 0 2 7 0 c", "D 2 0 2 7 0 c"), TWO), "J1");
        assert_eq!(broken(ONE, &TWO.replace("2 1 2 7 1 b", "2 1 2 7 1 c")), "J1");
        assert_eq!(broken(&ONE.replace("D 2 1 2 7 0 b\n", ""), TWO), "J2");
        assert_eq!(broken(ONE, &TWO.replace("D 2 1 2 7 1 b\n", "")), "J3");
        assert_eq!(broken(&ONE.replace("3 0 2 7 0 c", "3 0 2 7 0 x"), TWO), "J5");
        assert_eq!(broken(&ONE.replace("V 2\n", ""), TWO), "J1");
    }
}
