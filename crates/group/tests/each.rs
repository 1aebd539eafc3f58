//! Calls to which each member of a shard replies: once, also where letters are lost, members fail,
//! come and go, and callers do not read.

use group::{
    CallError, Ended, Member, MemberReply, NoReply, Options, Refused, Replica, Replicas, Replies,
    Subgroup, Transport, View, replicated,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

#[path = "common/memory.rs"]
mod memory;
#[path = "../examples/members/ports.rs"]
mod ports;
use memory::directory;

const PATIENCE: Duration = Duration::from_secs(60);

fn options(directory: &Path) -> Options {
    memory::options("each", directory, PATIENCE)
}

/// A list of numbers.
#[derive(Default, Serialize, Deserialize)]
struct List(Vec<u64>);

#[replicated]
impl List {
    /// The number of numbers before this one.
    #[ordered]
    fn push(&mut self, n: u64) -> usize {
        self.0.push(n);
        self.0.len() - 1
    }

    #[ordered]
    fn repeat(&mut self, word: String, n: usize) -> String {
        word.repeat(n)
    }

    #[query]
    fn sum(&self) -> u64 {
        self.0.iter().sum()
    }
}

/// Says at its end, also at that of a test which fails, that it is over.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn found(options: &Options) -> ListHandle {
    Replica::found(options, List::default()).unwrap().into()
}

fn join(options: &Options) -> ListHandle {
    Replica::join(options).unwrap().into()
}

/// What each member said: all of them the same, and each once.
fn one_result<R: Copy + std::fmt::Debug + PartialEq>(
    replies: Vec<MemberReply<R>>,
    members: &[&ListHandle],
) -> R {
    let said: BTreeSet<Member> = replies.iter().map(|(member, _)| *member).collect();
    let expected: BTreeSet<Member> = members.iter().map(|member| member.me()).collect();
    assert_eq!((said, replies.len()), (expected, members.len()), "one of each: {replies:?}");
    let first = replies[0].1.expect("the caller's own");
    assert!(replies.iter().all(|(_, result)| *result == Ok(first)), "{replies:?}");
    first
}

/// Each of three members makes `n_calls` calls, to which each of them replies.
fn replies_of_all(options: &Options, n_calls: usize) {
    let members = [found(options), join(options), join(options)];
    let all = members.each_ref();
    for member in all {
        member.wait_view(|view| view.members.len() == 3, PATIENCE).expect("all are there");
    }
    let places = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for member in all {
            let places = &places;
            scope.spawn(move || {
                let mut made: Vec<Replies<usize>> = Vec::new();
                for n in 0..n_calls {
                    if made.len() == 16 {
                        let replies = made.remove(0).all().unwrap();
                        assert_eq!(replies[0].0, member.me(), "the own result first");
                        places.lock().unwrap().push(one_result(replies, &all));
                    }
                    made.push(member.push_each(n as u64));
                }
                for replies in made {
                    places.lock().unwrap().push(one_result(replies.all().unwrap(), &all));
                }
            });
        }
    });
    let mut places = places.into_inner().unwrap();
    places.sort_unstable();
    assert!(places.into_iter().eq(0..3 * n_calls), "each call was executed once");
    // A query too: the copies are told to be equal, at one place of the order.
    let sum = one_result(members[1].sum_each().all().unwrap(), &all);
    assert_eq!(sum, 3 * (n_calls as u64 * (n_calls as u64 - 1) / 2));
}

#[test]
fn o7_each_member_replies_once() {
    let directory = directory();
    replies_of_all(&options(directory.path()), 300);
}

#[test]
fn o7_each_member_replies_once_over_tcp() {
    let (directory, addresses) = (directory(), ports::free(3).unwrap());
    let (seats, transport) = (addresses.len(), Transport::Tcp { addresses, listen: None });
    replies_of_all(&Options { transport, seats, ..options(directory.path()) }, 100);
}

#[test]
fn o7_each_member_replies_once_also_where_letters_are_lost() {
    let directory = directory();
    // Room for so few events that letters find none.
    replies_of_all(&Options { events: 2, ..options(directory.path()) }, 50);
}

#[test]
fn a_result_that_is_too_long_for_a_letter_is_told_to_be() {
    let directory = directory();
    let options = options(directory.path());
    let members = [found(&options), join(&options)];
    let replies = members[1].repeat_each("x".repeat(500), 400).all().unwrap();
    assert_eq!(replies[0].1.as_ref().map(String::len), Ok(200_000), "the own one needs no letter");
    assert_eq!((replies[1].0, replies[1].1.clone()), (members[0].me(), Err(NoReply::TooLong)));
    assert_eq!(replies.len(), 2);
}

/// A gate at one member, behind which its calls wait.
#[derive(Default, Serialize, Deserialize)]
struct Gated(u64);

static GATE: Mutex<()> = Mutex::new(());

#[replicated]
impl Gated {
    #[ordered]
    fn pass(&mut self) -> u64 {
        self.0 += 1;
        self.0
    }

    #[query]
    fn wait_at_gate(&self) {
        drop(GATE.lock());
    }
}

#[test]
fn o7_a_member_that_fails_is_gone_and_the_replies_end() {
    let directory = directory();
    let options = options(directory.path());
    let first = GatedHandle::from(Replica::found(&options, Gated::default()).unwrap());
    let others = [0, 1].map(|_| GatedHandle::from(Replica::join(&options).unwrap()));
    first.wait_view(|view| view.members.len() == 3, PATIENCE).expect("all are there");
    let gone = others[1].me();
    // The thread that executes what is delivered waits at one member.
    let closed = GATE.lock().unwrap();
    let held = first.wait_at_gate_at(gone.seat);
    let late = Duration::from_millis(1);
    assert_eq!(held.wait_for(late), Err(CallError::Late(late)));
    let mut replies = first.pass_each();
    assert_eq!(replies.wait(), Ok(Some((first.me(), Ok(1)))));
    assert_eq!(replies.wait(), Ok(Some((others[0].me(), Ok(1)))));
    assert_eq!(replies.wait_for(late), Err(CallError::Late(late)), "it has not executed it");
    first.suspect(gone.seat);
    assert_eq!(replies.wait(), Ok(Some((gone, Err(NoReply::Gone)))));
    assert_eq!((replies.wait(), replies.wait()), (Ok(None), Ok(None)));
    drop(closed);
    assert_eq!(first.pass_each().all().unwrap().len(), 2, "of those that are left");
    // The end of the caller: what others reply is not known.
    let replies = first.pass_each();
    Replica::clone(&first).close(PATIENCE).unwrap();
    let all = replies.all();
    assert!(matches!(all, Ok(_) | Err(CallError::Unknown(Ended::Left))), "{all:?}");
    let refused = first.pass_each().all().unwrap_err();
    assert!(matches!(refused, CallError::NotExecuted(_) | CallError::NoCopy), "{refused:?}");
}

#[test]
fn members_that_come_and_go_while_calls_are_made_leave_no_replies_open() {
    let directory = directory();
    let options = options(directory.path());
    let (first, second) = (found(&options), join(&options));
    let is_over = AtomicBool::new(false);
    let n_given = thread::scope(|scope| {
        let over = Over(&is_over);
        let calls = scope.spawn(|| {
            let mut n_given = 0;
            let mut n = 0;
            while !is_over.load(Ordering::SeqCst) {
                let replies = first.push_each(n).all().unwrap();
                n += 1;
                let results: BTreeSet<_> = replies.iter().flat_map(|(_, result)| result).collect();
                assert_eq!(results.len(), 1, "those that have executed it agree: {replies:?}");
                let said =
                    |member| replies.iter().any(|(one, result)| *one == member && result.is_ok());
                assert!(said(first.me()) && said(second.me()), "they stay: {replies:?}");
                n_given += replies.iter().filter(|(_, said)| *said == Err(NoReply::Given)).count();
            }
            n_given
        });
        for n in 0..10 {
            let third = join(&options);
            third.push(n).wait().unwrap();
            if n % 2 == 0 {
                drop(third);
            } else {
                let replica = Replica::clone(&third);
                drop(third);
                replica.close(PATIENCE).unwrap();
            }
        }
        drop(over);
        calls.join().unwrap()
    });
    println!("{n_given} replies of members to which the call was given");
}

#[test]
fn a_caller_that_does_not_read_is_refused_until_it_does() {
    let directory = directory();
    let options = Options { patience: Duration::from_millis(300), ..options(directory.path()) };
    let list = found(&options);
    let mut unread: Vec<_> = (0..32).map(|n| list.push_each(n)).collect();
    let refused = list.push_each(99).all().unwrap_err();
    assert_eq!(refused, CallError::NotExecuted(Refused::Unread));
    assert_eq!(list.push(32).wait(), Ok(32), "a call to which the own member replies is made");
    // One that is read to its end makes room, and so does one that is dropped.
    assert_eq!(unread.remove(5).all().unwrap().len(), 1);
    assert!(list.push_each(33).all().is_err(), "the first one keeps the others' places");
    drop(unread.remove(0));
    assert_eq!(list.push_each(33).all().unwrap()[0].1, Ok(33));
}

#[test]
fn each_member_of_a_shard_replies_and_no_other_one_is_asked() {
    let directory = directory();
    let layout = vec![Subgroup::new("lists").shards(2).members(1, 2)];
    let options = Options { layout, ..options(directory.path()) };
    let till = || Replicas::of(&options).object("lists", List::default);
    let objects: Vec<_> =
        (0..4).map(|n| if n == 0 { till().found() } else { till().join() }.unwrap()).collect();
    let lists: Vec<ListHandle> =
        objects.iter().map(|one| one.get("lists").unwrap().into()).collect();
    let is_whole =
        |view: &View| view.members.len() == 4 && view.shards.iter().all(|one| one.is_adequate);
    for list in &lists {
        list.wait_view(is_whole, PATIENCE).expect("all are there");
        assert!(list.wait_copy(PATIENCE));
    }
    let own = lists[0].own_shard().unwrap();
    let in_shard: Vec<&ListHandle> =
        lists.iter().filter(|list| list.own_shard() == Some(own)).collect();
    assert_eq!(in_shard.len(), 2);
    assert_eq!(one_result(lists[0].push_each(5).all().unwrap(), &in_shard), 0);
    assert_eq!(one_result(lists[0].in_shard(own).push_each(6).all().unwrap(), &in_shard), 1);
    let refused = lists[0].in_shard(1 - own).push_each(7).all().unwrap_err();
    let other = Refused::OtherShard { subgroup: "lists".into(), shard: (1 - own) as u16 };
    assert_eq!(refused, CallError::NotExecuted(other));
}

#[test]
fn replies_of_each_member_are_refused_to_one_that_is_no_sender() {
    let directory = directory();
    let layout = vec![Subgroup::new("lists").senders(&[1])];
    let options = Options { layout, ..options(directory.path()) };
    let till = || Replicas::of(&options).object("lists", List::default);
    let objects = [till().found().unwrap(), till().join().unwrap()];
    let lists = objects.each_ref().map(|one| ListHandle::from(one.get("lists").unwrap()));
    for list in &lists {
        list.wait_view(|view| view.members.len() == 2, PATIENCE).expect("both are there");
        assert!(list.wait_copy(PATIENCE));
    }
    let refused = Refused::NoSender { subgroup: "lists".into() };
    assert_eq!(lists[1].push_each(7).all().unwrap_err(), CallError::NotExecuted(refused));
    assert_eq!(one_result(lists[0].push_each(5).all().unwrap(), &lists.each_ref()), 0);
}

#[test]
fn with_leases_no_reply_is_told_that_a_lease_is_against() {
    let directory = directory();
    let options = Options { lease: Some(Duration::from_millis(200)), ..options(directory.path()) };
    let members = [found(&options), join(&options), join(&options)];
    let all = members.each_ref();
    for member in all {
        member.wait_view(|view| view.members.len() == 3, PATIENCE).expect("all are there");
    }
    for n in 0..20 {
        let caller = all[n % 3];
        assert_eq!(one_result(caller.push_each(1).all().unwrap(), &all), n);
        for reader in all {
            assert_eq!(reader.sum_leased(), Ok(n as u64 + 1));
        }
    }
}
