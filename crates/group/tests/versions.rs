//! Versions of replicated objects: by time and by place, at every member, in newcomers, after the
//! death of all, and through shards.

use group::{
    CallError, Delta, Deltas, HistoryError, Moment, Options, Persistent, Replica, Replicas,
    Subgroup, Time, Version, Volatile, replicated,
};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

#[path = "common/memory.rs"]
mod memory;
use memory::directory;

const PATIENCE: Duration = Duration::from_secs(60);

fn options(directory: &Path) -> Options {
    memory::options("versions", directory, PATIENCE)
}

/// A list that knows what was appended to it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Words {
    all: Vec<String>,
    #[serde(skip)]
    new: Vec<String>,
}

impl Words {
    fn append(&mut self, word: String) {
        self.all.push(word.clone());
        self.new.push(word);
    }
}

impl Delta for Words {
    type Change = Vec<String>;

    fn take_change(&mut self) -> Option<Vec<String>> {
        Some(std::mem::take(&mut self.new)).filter(|new| !new.is_empty())
    }

    fn redo(&mut self, change: &Vec<String>) {
        self.all.extend(change.iter().cloned());
    }
}

#[derive(Clone, Default, Serialize, Deserialize)]
struct Book {
    sum: Persistent<u64>,
    words: Persistent<Words, Deltas>,
    recent: Volatile<u64>,
}

#[replicated]
impl Book {
    /// The sum, and how many versions of it are kept.
    #[ordered]
    fn add(&mut self, n: u64) -> (u64, usize) {
        *self.sum.change() += n;
        *self.recent.change() += n;
        (*self.sum, self.sum.moments().len())
    }

    #[ordered]
    fn write(&mut self, word: String) {
        self.words.change().append(word);
    }

    #[ordered]
    fn forget(&mut self, before: Time) {
        self.sum.prune(before);
    }

    #[temporal]
    fn sum(&self, then: Time) -> Result<u64, HistoryError> {
        self.sum.at(then).map(|sum| *sum)
    }

    #[temporal]
    fn words(&self, then: Time) -> Result<Vec<String>, HistoryError> {
        self.words.at(then).map(|words| words.all.clone())
    }

    #[query]
    fn sum_of(&self, version: Version) -> Result<u64, HistoryError> {
        self.sum.at_version(version).map(|sum| *sum)
    }

    #[query]
    fn moments(&self) -> (Vec<Moment>, Vec<Moment>) {
        (self.sum.moments(), self.recent.moments())
    }

    #[query]
    fn now(&self) -> u64 {
        *self.sum
    }
}

fn found(options: &Options) -> BookHandle {
    Replica::found(options, Book::default()).unwrap().into()
}

fn join(options: &Options) -> BookHandle {
    Replica::join(options).unwrap().into()
}

/// Adds 1, 2, .. `n` by turns of the members; the time of each.
fn added(members: &[BookHandle], n: u64) -> Vec<Time> {
    let times = (1..=n).map(|number| {
        let member = &members[number as usize % members.len()];
        let (_, time) = member.add(number).wait_timed(PATIENCE).unwrap();
        time
    });
    times.collect()
}

#[test]
fn every_member_tells_what_was_at_a_time_and_always_the_same() {
    let directory = directory();
    let options = options(directory.path());
    let members = [found(&options), join(&options), join(&options)];
    let before = Time::now();
    let times = added(&members, 12);
    assert!(times.is_sorted() && times[0] > before.before(Duration::from_secs(60)));
    for (n, time) in (1..).zip(&times) {
        let expected = Ok(n * (n + 1) / 2);
        for member in &members {
            assert_eq!(member.sum(*time).unwrap(), expected, "{n}");
            let early = Time::from_nanos(time.as_nanos() - 1);
            assert_eq!(member.sum(early).unwrap(), Ok(n * (n - 1) / 2), "before {n}");
        }
    }
    // One that adds nothing makes no version.
    let (first, second) = (members[1].add(0).wait(), members[2].add(0).wait());
    assert_eq!((first, second), (Ok((78, 13)), Ok((78, 13))));
    let moments: Vec<_> = members.iter().map(|member| member.moments().unwrap()).collect();
    assert!(moments.iter().all(|one| *one == moments[0]));
    let fourth = moments[0].0[4];
    assert_eq!((members[2].sum_of(fourth.version).unwrap(), fourth.time), (Ok(10), times[3]));
    // A member that is asked tells the same.
    let seat = members[2].me().seat;
    assert_eq!(members[0].sum_of_at(seat, fourth.version).wait().unwrap(), Ok(10));
    // What is written as changes is put together again.
    for word in ["one", "two"] {
        let (_, time) = members[0].write(word.into()).wait_timed(PATIENCE).unwrap();
        assert_eq!(members[1].words(time).unwrap().unwrap().last().unwrap(), word);
    }
    assert_eq!(members[2].words(times[0]).unwrap(), Ok(vec![]));
}

#[test]
fn m2_a_group_that_is_founded_with_an_object_of_another_has_a_past_of_its_own() {
    let directories = [directory(), directory()];
    let first = found(&options(directories[0].path()));
    added(std::slice::from_ref(&first), 3);
    let object = first.query(Book::clone).unwrap();
    let second = Replica::found(&options(directories[1].path()), object).unwrap();
    let second = BookHandle::from(second);
    assert_eq!(second.moments().unwrap(), (vec![Moment::default()], vec![Moment::default()]));
    // The first change is later than those of the other group, by its place and by its time.
    for _ in 0..20 {
        second.forget(Time::default()).wait().unwrap();
    }
    let (_, time) = second.add(4).wait_timed(PATIENCE).unwrap();
    let (moments, _) = second.moments().unwrap();
    assert_eq!((moments.len(), moments[0], moments[1].time), (2, Moment::default(), time));
    assert_eq!(second.sum_of(Version { view: 1, sequence: 10 }).unwrap(), Ok(6));
}

#[test]
fn what_is_pruned_is_named_with_the_oldest_and_the_future_is_waited_for() {
    let directory = directory();
    let mut options = options(directory.path());
    options.patience = Duration::from_millis(300);
    let members = [found(&options), join(&options)];
    let times = added(&members, 5);
    members[0].forget(times[2]).wait().unwrap();
    let latest = members[0].latest();
    let oldest = match members[1].sum(latest).and_then(|_| members[1].sum(times[1])).unwrap() {
        Err(HistoryError::Pruned { oldest }) => oldest,
        other => panic!("{other:?}"),
    };
    assert_eq!((oldest.time, members[1].sum(times[2]).unwrap()), (times[2], Ok(6)));
    let future = Time::from_nanos(Time::now().as_nanos() + 3_600_000_000_000);
    assert_eq!(members[0].sum(future), Err(CallError::Late(options.patience)));
    // A time that comes soon is waited for; and nothing that comes later is of it.
    let soon = Time::from_nanos(Time::now().as_nanos() + 100_000_000);
    assert_eq!(members[0].sum(soon).unwrap(), Ok(15));
    let (_, time) = members[1].add(1).wait_timed(PATIENCE).unwrap();
    assert!(time > soon, "{time} after {soon}");
}

#[test]
fn a_newcomer_has_the_versions_that_are_part_of_the_state() {
    let directory = directory();
    let options = options(directory.path());
    let first = [found(&options)];
    let times = added(&first, 6);
    let newcomer = join(&options);
    assert!(newcomer.latest() >= times[5], "what it was given led to what it calls");
    let (sum, recent) = newcomer.moments().unwrap();
    assert_eq!((sum.len(), recent.len()), (7, 1));
    assert_eq!(recent[0], sum[6], "the last version alone");
    for member in [&newcomer, &first[0]] {
        assert_eq!(member.sum(times[2]).unwrap(), Ok(6));
    }
    drop(first);
    assert_eq!(newcomer.sum(times[3]).unwrap(), Ok(10), "alone, too");
}

#[test]
fn a_durable_group_has_its_versions_again_after_the_death_of_all() {
    let (memory, disks) = (directory(), tempfile::tempdir().unwrap());
    let options = |seat: usize| {
        let disk = disks.path().join(seat.to_string());
        let mut options = options(memory.path()).durable(seat, disk);
        options.data.as_mut().expect("it is durable").keep_bytes = 2048;
        options
    };
    let joined = |seats: &[usize]| -> Vec<BookHandle> {
        thread::scope(|scope| {
            let come = |seat: &usize| {
                let options = options(*seat);
                scope.spawn(move || join(&options))
            };
            let coming: Vec<_> = seats.iter().map(come).collect();
            coming.into_iter().map(|one| one.join().unwrap()).collect()
        })
    };
    let mut members = vec![found(&options(1))];
    members.extend(joined(&[2, 3]));
    let times = added(&members, 40);
    let told = |members: &[BookHandle]| -> Vec<_> {
        times.iter().map(|time| members[0].sum(*time).unwrap()).collect()
    };
    let before = (told(&members), members[1].moments().unwrap().0);
    assert_eq!(before.1.len(), 41);
    drop(members);
    let members = joined(&[1, 2, 3]);
    assert_eq!((told(&members), members[1].moments().unwrap().0), before);
    let (_, time) = members[2].add(1).wait_timed(PATIENCE).unwrap();
    assert!(time > times[39], "later than everything before the death of all");
    assert_eq!(members[0].sum(time).unwrap(), Ok(821));
}

#[test]
fn a_cut_through_shards_is_causal() {
    let directory = directory();
    let layout = [Subgroup::new("books").shards(2).members(1, 2)];
    let options = Options { layout: layout.to_vec(), ..options(directory.path()) };
    let till = || Replicas::of(&options).object("books", Book::default);
    let replicas: Vec<_> =
        (0..4).map(|n| if n == 0 { till().found() } else { till().join() }.unwrap()).collect();
    let books: Vec<BookHandle> =
        replicas.iter().map(|one| BookHandle::from(one.get("books").unwrap())).collect();
    let is_whole = |view: &group::View| {
        view.members.len() == 4 && view.shards.iter().all(|shard| shard.is_adequate)
    };
    books.iter().for_each(|book| {
        book.wait_view(is_whole, PATIENCE).expect("all are there");
        assert!(book.wait_copy(PATIENCE));
    });
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        // Each addition in the second shard follows one in the first.
        scope.spawn(|| {
            let caller = &books[1];
            for shard in [0, 1].repeat(200) {
                let call = caller.in_shard(shard).add(1);
                let (_, time) = call.wait_timed(PATIENCE).expect("it is added");
                assert!(caller.latest() >= time);
            }
            is_over.store(true, Ordering::SeqCst);
        });
        let reader = &books[3];
        let mut n_cuts = 0;
        while !is_over.load(Ordering::SeqCst) || n_cuts == 0 {
            let then = Time::now();
            let [first, second] =
                [0, 1].map(|shard| reader.in_shard(shard).sum(then).unwrap().unwrap());
            assert!(first == second || first == second + 1, "{first} and {second} at {then}");
            // A member of each is asked at once: the same.
            let asked = [1, 0].map(|shard| {
                let shard = reader.in_shard(shard);
                let seat = shard.seats()[n_cuts % 2];
                shard.sum_at(seat, then)
            });
            let again = asked.map(|sum| sum.wait().unwrap().unwrap());
            assert_eq!(again, [second, first], "a cut that was told stays");
            n_cuts += 1;
        }
    });
    let then = books[1].latest();
    let sums = [0, 1].map(|shard| books[2].in_shard(shard).sum(then).unwrap());
    assert_eq!(sums, [Ok(200), Ok(200)], "what the caller knows is in the cut");
}
