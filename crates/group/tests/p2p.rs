//! P2p methods: executed once, at the member that the caller chose, by members of the same shard
//! and of another one, and by clients outside of the group.

use group::{
    Access, CallError, Ended, Here, Local, Options, Refused, Remote, RemoteError, Replica,
    Replicas, Subgroup, Time, Transport, View, replicated,
};
use serde::{Deserialize, Serialize};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};
use std::thread;
use std::time::Duration;

#[path = "common/memory.rs"]
mod memory;
#[path = "../examples/members/ports.rs"]
mod ports;
use memory::directory;

const PATIENCE: Duration = Duration::from_secs(60);

fn options(directory: &Path) -> Options {
    memory::options("counters", directory, PATIENCE)
}

/// A sum that all members have, and what each has counted.
#[derive(Default, PartialEq, Serialize, Deserialize)]
struct Counters {
    sum: u64,
    here: Local<Vec<(usize, u64)>>,
}

#[replicated]
impl Counters {
    #[ordered]
    fn add(&mut self, n: u64) -> u64 {
        self.sum += n;
        self.sum
    }

    #[query]
    fn sum(&self) -> u64 {
        self.sum
    }

    /// The number of calls before this one.
    #[p2p]
    fn count(&self, here: &Here, n: u64) -> usize {
        let mut counted = self.here.lock(here);
        counted.push((here.caller().seat, n));
        counted.len() - 1
    }

    /// The seats that called, with their numbers, and the sum here.
    #[p2p]
    fn counted(&self, here: &Here) -> (Vec<(usize, u64)>, u64) {
        (self.here.lock(here).clone(), self.sum)
    }

    #[p2p]
    fn fail(&self, here: &Here) {
        panic!("member {:?} was asked to", here.me().seat);
    }

    #[p2p]
    fn repeat(&self, _: &Here, word: String, n: usize) -> String {
        word.repeat(n)
    }
}

/// An object whose arguments are called as are those of the code that is made of it.
#[derive(Default, Serialize, Deserialize)]
struct Namesakes;

#[replicated]
impl Namesakes {
    #[ordered]
    fn add(&mut self, method: u32, arguments: u32) -> u32 {
        method + arguments
    }

    #[query]
    fn sum(&self, seat: u32, object: u32) -> u32 {
        seat + object
    }

    #[p2p]
    fn all(&self, of: &Here, here: u32, seat: u32) -> (usize, u32) {
        (of.me().seat, here + seat)
    }

    #[temporal]
    fn then(&self, then: Time, seat: u32) -> (Time, u32) {
        (then, seat)
    }
}

#[test]
fn arguments_may_be_called_as_those_of_the_code_that_is_made() {
    let directory = directory();
    let member = Replica::found(&options(directory.path()), Namesakes).unwrap();
    let names = NamesakesHandle::from(member);
    let (seat, time) = (names.me().seat, Time::default());
    assert_eq!(names.add(1, 2).wait(), Ok(3));
    assert_eq!((names.sum(1, 2), names.sum_at(seat, 1, 2).wait()), (Ok(3), Ok(3)));
    assert_eq!(names.all_at(seat, 1, 2).wait(), Ok((seat, 3)));
    assert_eq!(names.then_at(seat, time, 5).wait(), Ok((time, 5)));
}

/// Says at its end, also at that of a test which fails, that it is over.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn found(options: &Options) -> CountersHandle {
    Replica::found(options, Counters::default()).unwrap().into()
}

fn join(options: &Options) -> CountersHandle {
    Replica::join(options).unwrap().into()
}

/// Each of three members calls each of them `n_calls` times, while others' calls are executed.
fn calls_of_all(options: &Options, n_calls: u64) {
    let members = [found(options), join(options), join(options)];
    members[0].wait_view(|view| view.members.len() == 3, PATIENCE).expect("all are there");
    let seats = [0, 1, 2].map(|at: usize| members[at].me().seat);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let _over = Over(&is_over);
        scope.spawn(|| {
            while !is_over.load(Ordering::SeqCst) {
                members[0].add(1).wait().unwrap();
            }
        });
        let callers = members.each_ref().map(|member| {
            scope.spawn(move || {
                for seat in seats {
                    // The member itself, too.
                    let calls: Vec<_> = (0..n_calls).map(|n| member.count_at(seat, n)).collect();
                    let before: Vec<_> = calls.iter().map(|call| call.wait().unwrap()).collect();
                    assert!(before.iter().all(|n| *n < 3 * n_calls as usize), "{before:?}");
                }
            })
        });
        for caller in callers {
            caller.join().unwrap();
        }
    });
    for seat in seats {
        let (mut counted, _) = members[0].counted_at(seat).wait().unwrap();
        counted.sort_unstable();
        let expected: Vec<_> =
            seats.iter().flat_map(|seat| (0..n_calls).map(|n| (*seat, n))).collect();
        assert_eq!(counted, expected, "each once, at seat {seat}");
    }
    // The copies are equal: a newcomer is given the sum, and has counted nothing.
    let newcomer = join(options);
    let sum = members[1].sum_ordered().wait().unwrap();
    let seat = newcomer.me().seat;
    members[2].wait_view(|view| view.members.len() == 4, PATIENCE).expect("it is there");
    assert_eq!(newcomer.sum_ordered().wait(), Ok(sum));
    assert_eq!(members[2].counted_at(seat).wait(), Ok((vec![], sum)));
}

#[test]
fn o6_each_p2p_call_is_executed_once() {
    let directory = directory();
    calls_of_all(&options(directory.path()), 500);
}

#[test]
fn o6_each_p2p_call_is_executed_once_over_tcp() {
    let (directory, addresses) = (directory(), ports::free(4).unwrap());
    let (seats, transport) = (addresses.len(), Transport::Tcp { addresses, listen: None });
    calls_of_all(&Options { transport, seats, ..options(directory.path()) }, 100);
}

#[test]
fn o6_each_p2p_call_is_executed_once_also_where_letters_are_lost() {
    let directory = directory();
    // Room for so few events that letters find none.
    calls_of_all(&Options { events: 2, ..options(directory.path()) }, 10);
}

#[test]
fn o6_a_p2p_call_of_a_dead_member_ends() {
    let directory = directory();
    let options = options(directory.path());
    let (first, second, third) = (found(&options), join(&options), join(&options));
    first.wait_view(|view| view.members.len() == 3, PATIENCE).expect("all are there");
    let seats = [&second, &third].map(|member| member.me().seat);
    assert_eq!(first.count_at(seats[0], 1).wait(), Ok(0));
    // It may have done something before it died: that is not known.
    let call = first.fail_at(seats[0]);
    assert_eq!(call.wait(), Err(CallError::Lost(seats[0])));
    let ended = second.wait_end(PATIENCE).expect("it has ended");
    assert!(matches!(ended, Ended::PanickedHere { method: "fail" }), "{ended}");
    // Nothing is asked of a process that is known to be gone, or never was there.
    assert_eq!(first.count_at(seats[0], 2).wait(), Err(CallError::Gone(seats[0])));
    assert_eq!(first.count_at(99, 2).wait(), Err(CallError::Gone(99)));
    // Its successor on the seat has nothing of what was counted there.
    drop(second);
    let next = join(&options);
    assert_eq!(next.me().seat, seats[0]);
    first.wait_view(|view| view.members.contains(&next.me()), PATIENCE).expect("it is there");
    assert_eq!(first.count_at(seats[0], 3).wait(), Ok(0));
    // A caller that has left asks nothing.
    let seat = first.me().seat;
    assert_eq!(third.count_at(seat, 4).wait(), Ok(0));
    Replica::clone(&third).close(PATIENCE).unwrap();
    let refused = CallError::NotExecuted(Refused::Ended(Ended::Left));
    assert_eq!(third.count_at(seat, 5).wait(), Err(refused));
}

#[test]
fn o3_a_p2p_method_calls_and_does_not_wait() {
    #[derive(Default, Serialize, Deserialize)]
    struct Nested {
        said: Vec<String>,
        heard: Local<Vec<String>>,
    }

    static HANDLE: OnceLock<Mutex<Option<NestedHandle>>> = OnceLock::new();

    #[replicated]
    impl Nested {
        #[ordered]
        fn say(&mut self, word: String) {
            self.said.push(word);
        }

        #[query]
        fn said(&self) -> Vec<String> {
            self.said.clone()
        }

        #[p2p]
        fn hear(&self, here: &Here, word: String) -> Vec<String> {
            let mut heard = self.heard.lock(here);
            heard.push(word);
            heard.clone()
        }

        #[p2p]
        fn outer(&self, here: &Here) -> Vec<String> {
            let handle = HANDLE.get().expect("it is set").lock().expect("no thread panicked");
            let handle = handle.as_ref().expect("it is set");
            let seat = here.me().seat;
            let (say, hear) = (handle.say("a".into()), handle.hear_at(seat, "b".into()));
            vec![
                format!("{:?}", say.wait()),
                format!("{:?}", hear.wait()),
                format!("{:?}", handle.said()),
                format!("{:?}", handle.said_leased()),
            ]
        }
    }

    let directory = directory();
    let replica = Replica::found(&options(directory.path()), Nested::default()).unwrap();
    let handle = NestedHandle::from(replica);
    HANDLE.get_or_init(|| Mutex::new(Some(handle.clone())));
    let seat = handle.me().seat;
    assert_eq!(handle.outer_at(seat).wait().unwrap(), vec!["Err(InHandler)"; 4]);
    // The calls themselves were made.
    assert_eq!(handle.said_ordered().wait(), Ok(vec!["a".to_owned()]));
    assert_eq!(handle.hear_at(seat, "c".into()).wait(), Ok(vec!["b".to_owned(), "c".into()]));
    HANDLE.get().unwrap().lock().unwrap().take();
}

#[test]
fn d3_a_caller_that_waits_for_no_outcome_is_refused_and_each_wait_ends() {
    #[derive(Default, Serialize, Deserialize)]
    struct Gated;

    static GATE: Mutex<()> = Mutex::new(());

    #[replicated]
    impl Gated {
        #[p2p]
        fn pass(&self, _: &Here, n: u64) -> u64 {
            let _open = GATE.lock().expect("no thread panicked");
            n
        }
    }

    let directory = directory();
    let options = Options { patience: PATIENCE, ..options(directory.path()) };
    let first = GatedHandle::from(Replica::found(&options, Gated).unwrap());
    let hasty = Options { patience: Duration::from_millis(500), ..options };
    let closed = GATE.lock().unwrap();
    let second = GatedHandle::from(Replica::join(&hasty).unwrap());
    let seat = first.me().seat;
    let calls: Vec<_> = (0..32).map(|n| second.pass_at(seat, n)).collect();
    let refused = second.pass_at(seat, 99).wait();
    assert_eq!(refused, Err(CallError::NotExecuted(Refused::Open { seat })));
    let late = Duration::from_millis(1);
    assert_eq!(calls[0].wait_for(late), Err(CallError::Late(late)));
    drop(closed);
    for (n, call) in (0..).zip(&calls) {
        assert_eq!(call.wait_for(PATIENCE), Ok(n));
    }
    // Calls whose outcomes no caller can learn take no room.
    for n in 0..100 {
        second.pass_at(seat, n).forget();
    }
    assert_eq!(second.pass_at(seat, 7).wait_for(PATIENCE), Ok(7));
}

#[test]
fn p2p_methods_of_another_shard_are_called_by_members_and_by_clients_outside() {
    let directory = directory();
    let layout = vec![Subgroup::new("counters").shards(2).members(1, 2)];
    let options = Options { layout, ..options(directory.path()) };
    let till = || Replicas::of(&options).object("counters", Counters::default);
    let objects = [till().found().unwrap(), till().join().unwrap(), till().join().unwrap()];
    let members: Vec<CountersHandle> =
        objects.iter().map(|one| one.get("counters").unwrap().into()).collect();
    let is_whole =
        |view: &View| view.members.len() == 3 && view.shards.iter().all(|s| s.is_adequate);
    for member in &members {
        member.wait_view(is_whole, PATIENCE).expect("all are there");
        assert!(member.wait_copy(PATIENCE));
    }
    let own = members[0].own_shard().unwrap();
    let other = members[0].in_shard(1 - own);
    let seat = other.seats()[0];
    let caller = members[0].me().seat;
    assert_eq!(other.count_at(seat, 5).wait(), Ok(0));
    // Without a shard the seat alone is meant; with one, a member of it.
    assert_eq!(members[0].counted_at(seat).wait(), Ok((vec![(caller, 5)], 0)));
    let declined = members[0].in_shard(own).count_at(seat, 6).wait();
    assert_eq!(declined, Err(CallError::Declined(seat)));

    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let clients = members[0].serve_clients(listener).unwrap();
    let access = Access {
        members: vec![clients.address()],
        group: "counters".into(),
        secret: "sesame".into(),
        subgroup: "counters".into(),
        patience: PATIENCE,
    };
    let remote = CountersRemote::from(Remote::connect(&access).unwrap());
    assert_eq!(remote.seats(), Ok(members[0].seats()));
    let there = remote.in_shard(1 - own);
    assert_eq!(there.seats(), Ok(other.seats()));
    assert_eq!(there.count_at(seat, 7), Ok(1));
    assert_eq!(remote.count_at(caller, 8), Ok(0), "the member that it is connected to");
    let counted = remote.counted_at(seat).unwrap().0;
    assert_eq!(counted, [(caller, 5), (caller, 7)], "by way of a member");
    let error = remote.in_shard(own).count_at(seat, 9).unwrap_err();
    assert!(matches!(error, RemoteError::NotExecuted(_)), "{error:?}");
    let error = remote.count_at(6, 9).unwrap_err();
    assert!(matches!(error, RemoteError::NotExecuted(_)), "{error:?}");
    // What was executed is not said to be not executed.
    let error = there.repeat_at(seat, "x".repeat(1000), 200).unwrap_err();
    assert!(matches!(error, RemoteError::Executed(_)), "{error:?}");
    assert_eq!(remote.counted_at(seat).unwrap().0.len(), 2);
}
