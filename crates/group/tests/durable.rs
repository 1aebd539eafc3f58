//! Groups on disk: what comes back after all processes are gone, and which logs are refused.

use group::{
    CallError, Ended, Error, Group, Mode, NoReply, Objects, Options, Refused, Replica, Replicas,
    Subgroup, replicated,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(60);

/// A sum, and the number of calls that made it.
#[derive(Default, Serialize, Deserialize)]
struct Sum {
    sum: u64,
    n_calls: u64,
}

#[replicated]
impl Sum {
    #[ordered]
    fn add(&mut self, n: u64) -> u64 {
        self.sum += n;
        self.n_calls += 1;
        self.sum
    }

    #[query]
    fn told(&self) -> (u64, u64) {
        (self.sum, self.n_calls)
    }
}

/// The directories of a group: memory, and disks.
struct Place {
    memory: TempDir,
    disks: TempDir,
}

impl Place {
    fn new() -> Place {
        let prefix = "gregale-durable-group";
        let memory = tempfile::Builder::new().prefix(prefix).tempdir_in("/dev/shm").unwrap();
        Place { memory, disks: tempfile::Builder::new().prefix(prefix).tempdir().unwrap() }
    }

    fn disk(&self, seat: usize) -> PathBuf {
        self.disks.path().join(seat.to_string())
    }

    fn options(&self, seat: usize) -> Options {
        let options = Options::shm("sums", "a secret", "sums 1").durable(seat, self.disk(seat));
        let mut options = Options { directory: self.memory.path().join("memory"), ..options };
        options.timing.suspect_after = Duration::from_secs(1);
        options.data.as_mut().expect("it is durable").keep_bytes = 4096;
        options.patience = PATIENCE;
        options
    }

    /// Processes with logs come back on these seats.
    fn come_back(&self, seats: &[usize]) -> Vec<SumHandle> {
        thread::scope(|scope| {
            let join = |seat: &usize| {
                let options = self.options(*seat);
                scope.spawn(move || SumHandle::from(Replica::join(&options).unwrap()))
            };
            let joining: Vec<_> = seats.iter().map(join).collect();
            joining.into_iter().map(|one| one.join().unwrap()).collect()
        })
    }

    fn found(&self) -> SumHandle {
        SumHandle::from(Replica::found(&self.options(1), Sum::default()).unwrap())
    }
}

#[test]
fn a_group_that_is_gone_comes_back_with_its_state_and_goes_on() {
    let place = Place::new();
    let mut members = vec![place.found()];
    members.extend(place.come_back(&[2, 3]));
    let mut n_calls = 0;
    // (The one that is gone first comes back later, and is given the state: the view that governs
    // may go without it.)
    for seats in [[2, 3, 1], [3, 1, 2], [1, 2, 3]] {
        for member in &members {
            for _ in 0..100 {
                n_calls += 1;
                member.add(2).wait().unwrap();
            }
        }
        drop(members);
        members = place.come_back(&seats[..2]);
        assert_eq!(members[1].told_ordered().wait().unwrap(), (2 * n_calls, n_calls));
        members.extend(place.come_back(&seats[2..]));
        assert_eq!(members[2].told_ordered().wait().unwrap(), (2 * n_calls, n_calls));
    }
}

#[test]
fn a_subgroup_in_memory_begins_again_where_the_others_come_back() {
    let place = Place::new();
    let layout = vec![Subgroup::new("kept"), Subgroup::new("fleeting").in_memory()];
    let objects = |seat: usize| {
        let options = Options { layout: layout.clone(), ..place.options(seat) };
        let objects = Replicas::of(&options).object("kept", Sum::default);
        objects.object("fleeting", || Sum { sum: 1000, n_calls: 0 })
    };
    let sums = |objects: &Objects| {
        ["kept", "fleeting"].map(|name| SumHandle::from(objects.get::<Sum>(name).unwrap()))
    };
    let mut members = vec![objects(1).found().unwrap()];
    members.extend([2, 3].map(|seat| objects(seat).join().unwrap()));
    for member in &members {
        for sum in sums(member) {
            sum.add(7).wait().unwrap();
        }
    }
    let told = |sums: [SumHandle; 2]| sums.map(|sum| sum.told_ordered().wait().unwrap());
    assert_eq!(told(sums(&members[0])), [(21, 3), (1021, 3)]);
    drop(members.pop());
    members.push(objects(3).join().unwrap());
    assert_eq!(told(sums(&members[2])), [(21, 3), (1021, 3)], "members that lived had both");
    drop(members);
    let joining = [1, 2, 3].map(&objects);
    let back: Vec<Objects> = thread::scope(|scope| {
        let joining = joining.map(|one| scope.spawn(move || one.join().unwrap()));
        joining.map(|one| one.join().unwrap()).into()
    });
    for member in &back {
        assert_eq!(told(sums(member)), [(21, 3), (1000, 0)]);
    }
    for sum in sums(&back[0]) {
        sum.add(1).wait().unwrap();
    }
    assert_eq!(told(sums(&back[1])), [(22, 4), (1001, 1)]);
}

#[test]
fn one_of_three_does_not_restart_a_group() {
    let place = Place::new();
    let mut members = vec![place.found()];
    members.extend(place.come_back(&[2, 3]));
    members[0].add(5).wait().unwrap();
    drop(members);
    let options = Options { patience: Duration::from_millis(1500), ..place.options(2) };
    let alone = Replica::<Sum>::join(&options);
    assert!(matches!(alone, Err(Error::NoAnswer { .. })), "{:?}", alone.err());
    let members = place.come_back(&[2, 3]);
    assert_eq!(members[0].told_ordered().wait().unwrap(), (5, 1));
}

#[test]
fn a_founder_that_was_gone_before_its_object_was_in_its_log_is_told_so() {
    let place = Place::new();
    let options = place.options(1);
    let application = format!("{}; {}", options.application, group::agreed::<Sum>());
    let options = Options { application, keeps_state: true, ..options };
    // It is asked for its object, and does not give it.
    drop(Group::found(&options).unwrap());
    let joined = Replica::<Sum>::join(&place.options(1));
    assert!(matches!(joined, Err(Error::Ended(Ended::NotBegun))), "{:?}", joined.err());
}

/// Notes of which a field is not always serialized, and the same with all fields.
mod notes {
    pub(super) mod skipping {
        use group::replicated;
        use serde::{Deserialize, Serialize};

        #[derive(Serialize, Deserialize)]
        struct Note {
            #[serde(skip_serializing_if = "Option::is_none")]
            by: Option<String>,
            n: u64,
        }

        #[derive(Default, Serialize, Deserialize)]
        pub(crate) struct Notes(Vec<Note>);

        #[replicated]
        impl Notes {
            #[ordered]
            pub(crate) fn put(&mut self, n: u64) -> usize {
                self.0.push(Note { by: None, n });
                self.0.len()
            }
        }
    }

    pub(super) mod whole {
        use group::replicated;
        use serde::{Deserialize, Serialize};

        #[derive(Serialize, Deserialize)]
        struct Note {
            by: Option<String>,
            n: u64,
        }

        #[derive(Default, Serialize, Deserialize)]
        pub(crate) struct Notes(Vec<Note>);

        #[replicated]
        impl Notes {
            #[ordered]
            pub(crate) fn put(&mut self, n: u64) -> usize {
                self.0.push(Note { by: None, n });
                self.0.len()
            }
        }
    }
}

#[test]
fn t1_a_state_that_cannot_be_read_frees_no_call() {
    use notes::{skipping, whole};
    let place = Place::new();
    let notes = Replica::found(&place.options(1), skipping::Notes::default()).unwrap();
    let notes = skipping::NotesHandle::from(notes);
    let mut n_answered = 0;
    let ended = loop {
        match notes.put(7).wait() {
            Ok(n) => n_answered = n,
            Err(CallError::Unknown(ended)) => break ended,
            Err(CallError::NotExecuted(Refused::Ended(ended))) => break ended,
            Err(other) => panic!("{other}"),
        }
        assert!(n_answered < 4096, "a state is wanted after 4096 bytes");
    };
    let Ended::StateUnreadable { object } = ended else { panic!("{ended}") };
    assert!(object.ends_with("skipping::Notes"), "{object}");
    drop(notes);
    let notes = Replica::<whole::Notes>::join(&place.options(1)).unwrap();
    let n = whole::NotesHandle::from(notes).put(7).wait().unwrap();
    assert!((n_answered + 1..=n_answered + 2).contains(&n), "{n_answered} were answered: {n}");
}

#[test]
fn t1_a_newcomer_on_disk_is_given_no_state_that_cannot_be_read() {
    use notes::{skipping, whole};
    let place = Place::new();
    let notes = Replica::found(&place.options(1), skipping::Notes::default()).unwrap();
    let notes = skipping::NotesHandle::from(notes);
    assert_eq!(notes.put(7).wait(), Ok(1));
    let joined = Replica::<skipping::Notes>::join(&place.options(2));
    assert!(joined.is_err(), "there is no state to give");
    let ended = notes.wait_end(PATIENCE);
    assert!(matches!(ended, Some(Ended::StateUnreadable { .. })), "{ended:?}");
    drop(notes);
    let back = thread::scope(|scope| {
        let join = |seat: usize| {
            let options = place.options(seat);
            scope.spawn(move || Replica::<whole::Notes>::join(&options).unwrap())
        };
        [1, 2].map(join).map(|one| whole::NotesHandle::from(one.join().unwrap()))
    });
    assert_eq!(back.each_ref().map(|one| one.put(7).wait()), [Ok(2), Ok(3)]);
}

/// An object of which no bytes can be made: a flattened field has no number of fields.
#[derive(Default, Serialize, Deserialize)]
struct Flat {
    n: u64,
    #[serde(flatten)]
    more: BTreeMap<String, u64>,
}

#[replicated]
impl Flat {
    #[query]
    fn n(&self) -> u64 {
        self.n
    }
}

#[test]
fn an_object_that_cannot_be_kept_founds_no_group() {
    let place = Place::new();
    let refused = Replica::found(&place.options(1), Flat::default()).map(|_| ());
    let Err(Error::Ended(Ended::StateUnreadable { object })) = refused else {
        panic!("{refused:?}")
    };
    assert!(object.ends_with("Flat"), "{object}");
    assert!(!place.disk(1).exists());
}

#[test]
fn t2_a_newcomer_that_cannot_read_its_copy_leaves_the_founder_alone() {
    use notes::skipping::{Notes, NotesHandle};
    let place = Place::new();
    let options = |seat| Options { mode: Mode::Ordered, data: None, ..place.options(seat) };
    let founder = NotesHandle::from(Replica::found(&options(1), Notes::default()).unwrap());
    assert_eq!(founder.put(7).wait(), Ok(1));
    let joined = Replica::<Notes>::join(&options(2));
    let Err(Error::NoState(why)) = joined else { panic!("{:?}", joined.map(|_| ())) };
    assert!(why.contains("skip_serializing_if"), "{why}");
    assert_eq!(founder.put(7).wait(), Ok(2));
}

#[test]
fn t2_a_newcomer_that_gets_no_copy_in_time_leaves_the_founder_alone() {
    static GATE: Mutex<()> = Mutex::new(());

    #[derive(Default, Serialize, Deserialize)]
    struct Slow(u64);

    #[replicated]
    impl Slow {
        #[ordered]
        fn add(&mut self, n: u64) -> u64 {
            drop(GATE.lock().unwrap());
            self.0 += n;
            self.0
        }
    }

    let place = Place::new();
    for mode in [Mode::Ordered, Mode::Durable] {
        let options = |seat| match mode {
            Mode::Durable => place.options(seat),
            _ => Options { mode, data: None, ..place.options(seat) },
        };
        let founder = SlowHandle::from(Replica::found(&options(1), Slow::default()).unwrap());
        let shut = GATE.lock().unwrap();
        let added = founder.add(7);
        let hasty = Options { patience: Duration::from_secs(3), ..options(2) };
        let joined = Replica::<Slow>::join(&hasty);
        assert!(matches!(joined, Err(Error::NoState(_))), "{:?}", joined.map(|_| ()));
        drop(shut);
        assert_eq!(added.wait(), Ok(7));
        assert_eq!(founder.add(7).wait(), Ok(14), "{mode:?}: it has the only copy");
        let view = founder.wait_view(|view| view.members.len() == 1, PATIENCE).unwrap();
        assert!(view.failed.is_empty() && view.left.len() == 1, "{mode:?}: {view}");
    }
}

/// A query that panics harms no copy, so the log that has it is read again.
#[test]
fn a_query_that_panics_at_its_place_in_the_order_ends_no_process() {
    #[derive(Default, Serialize, Deserialize)]
    struct List(Vec<u64>);

    #[replicated]
    impl List {
        #[ordered]
        fn push(&mut self, n: u64) -> usize {
            self.0.push(n);
            self.0.len()
        }

        #[query]
        fn nth(&self, n: usize) -> u64 {
            self.0[n]
        }
    }

    let place = Place::new();
    let join = |seat: usize| {
        let options = place.options(seat);
        thread::spawn(move || ListHandle::from(Replica::<List>::join(&options).unwrap()))
    };
    let founder = ListHandle::from(Replica::found(&place.options(1), List::default()).unwrap());
    let members = [founder, join(2).join().unwrap()];
    let (first, second) = (&members[0], &members[1]);
    first.wait_view(|view| view.members.len() == 2, PATIENCE).unwrap();
    assert_eq!(first.push(7).wait(), Ok(1));
    assert_eq!(second.nth_ordered(0).wait(), Ok(7));
    let panicked = CallError::QueryPanicked;
    assert_eq!(first.nth_ordered(9).wait(), Err(panicked.clone()));
    assert_eq!(first.nth_at(second.me().seat, 9).wait(), Err(panicked.clone()));
    let replies = first.nth_each(9).all().unwrap();
    let said: Vec<_> = replies.into_iter().map(|(_, said)| said).collect();
    assert_eq!(said, [Err(NoReply::Panicked), Err(NoReply::Panicked)]);
    assert_eq!(second.push(8).wait(), Ok(2), "both are there");
    drop(members);
    let back = [join(1), join(2)].map(|one| one.join().unwrap());
    assert_eq!(back[0].nth_ordered(9).wait(), Err(panicked));
    assert_eq!(back[1].push(9).wait(), Ok(3));
}

fn refusal(joined: Result<Replica<Sum>, Error>) -> String {
    match joined {
        Err(error @ Error::Data { .. }) => error.to_string(),
        other => panic!("not refused for its log: {:?}", other.map(|_| ())),
    }
}

#[test]
fn logs_of_others_and_damaged_ones_are_refused_by_name() {
    let place = Place::new();
    let founder = place.found();
    for _ in 0..20 {
        founder.add(0x6761_6c65).wait().unwrap();
    }
    drop(founder);
    let why = refusal(Replica::found(&place.options(1), Sum::default()));
    assert!(why.contains("holds a member already"), "{why}");
    let other_seat = Options { seat: Some(2), ..place.options(1) };
    assert!(refusal(Replica::join(&other_seat)).contains("belongs to node 1"));
    let renamed = Options { name: "products".into(), ..place.options(1) };
    assert!(refusal(Replica::join(&renamed)).contains("of cluster"));
    let back = place.come_back(&[1]);
    assert_eq!(back[0].told_ordered().wait().unwrap().1, 20, "nothing was changed");
    drop(back);
    let file = damage(&place.disk(1));
    let why = refusal(Replica::join(&place.options(1)));
    assert!(why.contains(&file) && why.contains("newcomer"), "{why}");
}

#[test]
fn a_log_that_cannot_be_looked_at_is_not_said_to_be_a_member_s() {
    let place = Place::new();
    let founder = place.found();
    founder.add(1).wait().unwrap();
    drop(founder);
    let identity = place.disk(1).join("identity");
    let bytes = std::fs::read(&identity).unwrap();
    std::fs::remove_file(&identity).unwrap();
    std::fs::create_dir(&identity).unwrap();
    let why = refusal(Replica::join(&place.options(1)));
    assert!(!why.contains("holds a member already") && why.contains("directory"), "{why}");
    std::fs::remove_dir(&identity).unwrap();
    std::fs::write(&identity, bytes).unwrap();
    place.come_back(&[1]);
}

/// Flips a bit in the first of the calls in a log. Returns the name of the file.
fn damage(directory: &Path) -> String {
    let names = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let logs = names.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("log-"));
    let path = logs.min().unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    // 0x67616c65 as postcard writes it.
    let call = [0xe5, 0xd8, 0x85, 0xbb, 0x06];
    let at = bytes.windows(call.len()).position(|window| window == call).unwrap();
    bytes[at] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    path.file_name().unwrap().to_string_lossy().into_owned()
}

#[test]
fn what_contradicts_itself_is_refused_before_anything_is_made() {
    let place = Place::new();
    let options = place.options(1);
    for wrong in [
        Options { data: None, ..options.clone() },
        Options { mode: Mode::Ordered, ..options.clone() },
        Options { seat: None, ..options },
    ] {
        let refused = Replica::<Sum>::join(&wrong);
        assert!(matches!(refused, Err(Error::Options(_))), "{:?}", refused.err());
    }
    assert!(!place.disk(1).exists());
}
