//! Replicated objects: one order, one outcome for each call, states for newcomers, ends.

use group::{
    CallError, Ended, Error, Options, Refused, Replica, Replicated, Transport, replicated,
};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::{Barrier, Mutex, OnceLock};
use std::time::Duration;

#[path = "common/memory.rs"]
mod memory;
#[path = "../examples/members/ports.rs"]
mod ports;
use memory::directory;

const PATIENCE: Duration = Duration::from_secs(30);

fn options(directory: &Path) -> Options {
    memory::options("objects", directory, PATIENCE)
}

/// A list of words, and how many of them each member wrote.
#[derive(Default, PartialEq, Serialize, Deserialize)]
struct Words(Vec<(usize, u64)>);

#[replicated]
impl Words {
    /// The number of words before this one.
    #[ordered]
    fn write(&mut self, seat: usize, word: u64) -> usize {
        self.0.push((seat, word));
        self.0.len() - 1
    }

    #[ordered]
    fn fail(&mut self, at_least: usize) {
        assert!(self.0.len() < at_least, "as it was asked to");
    }

    #[query]
    fn all(&self) -> Vec<(usize, u64)> {
        self.0.clone()
    }
}

fn found(directory: &Path) -> WordsHandle {
    Replica::found(&options(directory), Words::default()).unwrap().into()
}

fn join(directory: &Path) -> WordsHandle {
    Replica::join(&options(directory)).unwrap().into()
}

#[test]
fn every_call_is_executed_once_in_one_order_and_its_caller_gets_its_own_result() {
    const N: u64 = 500;
    let directory = directory();
    let members = [found(directory.path()), join(directory.path()), join(directory.path())];
    let places = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for member in members.iter().chain(&members) {
            scope.spawn(|| {
                let seat = member.me().seat;
                let calls: Vec<_> = (0..N).map(|word| (word, member.write(seat, word))).collect();
                let mine = calls.iter().map(|(word, call)| (call.wait().unwrap(), (seat, *word)));
                places.lock().unwrap().extend(mine.collect::<Vec<_>>());
            });
        }
    });
    let mut places = places.into_inner().unwrap();
    places.sort_unstable();
    let written: Vec<_> = places.iter().map(|(_, word)| *word).collect();
    let is_each_once = places.iter().map(|(place, _)| *place).eq(0..6 * N as usize);
    assert!(is_each_once, "no two calls had the same place");
    for member in &members {
        assert_eq!(member.all_ordered().wait().unwrap(), written);
    }
    for member in members {
        let replica = Replica::clone(&member);
        drop(member);
        replica.close(PATIENCE).unwrap();
    }
}

#[test]
fn a_newcomer_has_what_was_executed_before_and_what_is_called_meanwhile() {
    let directory = directory();
    let first = found(directory.path());
    let second = std::thread::scope(|scope| {
        let writes = scope.spawn(|| (0..2000).for_each(|word| first.write(1, word).forget()));
        let second = join(directory.path());
        writes.join().unwrap();
        second
    });
    second.write(2, 7).wait_for(Duration::MAX).unwrap();
    let all = first.all_ordered().wait().unwrap();
    assert_eq!(second.all_ordered().wait().unwrap(), all);
    assert_eq!(all.iter().filter(|(seat, _)| *seat == 1).count(), 2000);
    assert_eq!(second.view().members.len(), 2);
}

#[test]
fn a_local_query_sees_the_own_calls_that_have_ended() {
    let directory = directory();
    let first = found(directory.path());
    for word in 0..100 {
        first.write(1, word).wait().unwrap();
        assert_eq!(first.all().unwrap().last(), Some(&(1, word)));
    }
}

#[test]
fn a_method_that_panics_ends_its_process_and_names_itself() {
    let directory = directory();
    let members = [found(directory.path()), join(directory.path())];
    members[1].write(2, 1).wait().unwrap();
    members[0].fail(9).wait().unwrap();
    let call = members[0].fail(1);
    let Err(CallError::Unknown(ended)) = call.wait() else { panic!("the call was executed") };
    assert!(matches!(ended, Ended::Panicked { method: "fail", .. }), "{ended}");
    let after = members[0].write(1, 2).wait();
    assert_eq!(after, Err(CallError::NotExecuted(Refused::Ended(ended.clone()))));
    assert_eq!(members[0].all(), Err(CallError::Unknown(ended)));
    let other = Replica::clone(&members[1]).close(PATIENCE);
    assert!(matches!(other, Err(Ended::Panicked { method: "fail", .. })), "{other:?}");
}

#[test]
fn members_with_other_methods_do_not_join() {
    /// The same name, and another type of a method.
    #[derive(Default, Serialize, Deserialize)]
    struct Words(Vec<u32>);

    #[replicated]
    impl Words {
        #[ordered]
        fn write(&mut self, word: u32) {
            self.0.push(word);
        }
    }

    let directory = directory();
    let _first = found(directory.path());
    let Err(error) = Replica::<Words>::join(&options(directory.path())) else { panic!("joined") };
    assert!(matches!(error, Error::Refused { .. }), "{error:?}");
    let said = error.to_string();
    assert!(said.contains("ordered write(u32) -> ()") && said.contains("fingerprint"), "{said}");
}

#[test]
fn members_whose_types_have_one_name_and_other_fields_do_not_join() {
    mod here {
        #[derive(Default, serde::Serialize, serde::Deserialize)]
        pub(super) struct Item {
            pub(super) name: String,
            pub(super) price: u32,
        }

        #[derive(Default, serde::Serialize, serde::Deserialize)]
        pub(super) struct Store(Vec<Item>);

        #[group::replicated]
        impl Store {
            #[ordered]
            fn put(&mut self, item: Item) {
                self.0.push(item);
            }
        }
    }
    mod there {
        #[derive(Default, serde::Serialize, serde::Deserialize)]
        pub(super) struct Item {
            pub(super) name: String,
            pub(super) weight: u64,
        }

        #[derive(Default, serde::Serialize, serde::Deserialize)]
        pub(super) struct Store(Vec<Item>);

        #[group::replicated]
        impl Store {
            #[ordered]
            fn put(&mut self, item: Item) {
                self.0.push(item);
            }
        }
    }

    let methods = |methods: &[group::Method]| methods.to_vec();
    let [one, other] = [here::Store::METHODS, there::Store::METHODS].map(methods);
    assert_eq!(one, other, "the methods are the same in words");
    for is_tcp in [false, true] {
        let directory = directory();
        let mut options = options(directory.path());
        if is_tcp {
            let addresses = ports::free(3).unwrap();
            options.seats = addresses.len();
            options.transport = Transport::Tcp { addresses, listen: None };
        }
        let first = Replica::found(&options, here::Store::default()).unwrap();
        let refused = Replica::<there::Store>::join(&options).map(|_| ());
        let Err(error @ Error::Refused { .. }) = refused else { panic!("{refused:?}") };
        let said = error.to_string();
        let both = ["Item{name:str,price:u32}", "Item{name:str,weight:u64}"];
        assert!(both.iter().all(|item| said.contains(item)), "both sides' types: {said}");
        // Nothing changed: those that have the same types are let in.
        let second = Replica::<here::Store>::join(&options).unwrap();
        let view = first.wait_view(|view| view.members.len() == 2, PATIENCE).expect("it is there");
        assert_eq!((view.number, second.view().number), (2, 2));
        // A client outside of the group is told both, too.
        let listener = std::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).unwrap();
        let clients = first.serve_clients(listener).unwrap();
        let access = group::Access {
            members: vec![clients.address()],
            group: "objects".into(),
            secret: "sesame".into(),
            subgroup: String::new(),
            patience: PATIENCE,
        };
        let said = group::Remote::<there::Store>::connect(&access).unwrap_err().to_string();
        assert!(both.iter().all(|item| said.contains(item)), "both sides' types: {said}");
    }
}

#[test]
fn a_handler_that_would_wait_is_refused() {
    #[derive(Default, Serialize, Deserialize)]
    struct Nested(Vec<String>);

    static HANDLE: OnceLock<Mutex<Option<NestedHandle>>> = OnceLock::new();

    #[replicated]
    impl Nested {
        #[ordered]
        fn outer(&mut self) {
            let handle = HANDLE.get().expect("it is set").lock().expect("no thread panicked");
            let handle = handle.as_ref().expect("it is set");
            let call = handle.inner();
            self.0.push(format!("{:?}", call.wait()));
            self.0.push(format!("{:?}", handle.said().map(|_| ())));
            self.0.push(format!("{:?}", handle.wait_copy(PATIENCE)));
        }

        #[ordered]
        fn inner(&mut self) {
            self.0.push("inner".into());
        }

        #[query]
        fn said(&self) -> Vec<String> {
            self.0.clone()
        }
    }

    let directory = directory();
    let replica = Replica::found(&options(directory.path()), Nested::default()).unwrap();
    let handle = NestedHandle::from(replica);
    HANDLE.get_or_init(|| Mutex::new(Some(handle.clone())));
    handle.outer().wait().unwrap();
    let refused = "Err(InHandler)".to_owned();
    let said = handle.said_ordered().wait().unwrap();
    let there = "true".to_owned();
    let made = "inner".to_owned();
    assert_eq!(said, [refused.clone(), refused, there, made], "the call itself was made");
    HANDLE.get().unwrap().lock().unwrap().take();
}

#[test]
fn clones_that_close_together_are_both_told_that_their_process_has_left() {
    let directory = directory();
    let first = Replica::<Words>::found(&options(directory.path()), Words::default()).unwrap();
    let _second = join(directory.path());
    let (clone, barrier) = (first.clone(), Barrier::new(2));
    let close = |replica: Replica<Words>| {
        barrier.wait();
        replica.close(PATIENCE)
    };
    let closed = std::thread::scope(|scope| {
        let clones = [first, clone].map(|replica| scope.spawn(|| close(replica)));
        clones.map(|thread| thread.join().expect("no panic"))
    });
    assert_eq!(closed, [Ok(()), Ok(())]);
}

#[test]
fn a_handle_that_is_dropped_takes_its_process_out_of_the_group() {
    let directory = directory();
    let (first, second) = (found(directory.path()), join(directory.path()));
    drop(join(directory.path()));
    for member in [&first, &second] {
        let view = member.wait_view(|view| !view.failed.is_empty(), PATIENCE);
        let view = view.expect("the next view begins");
        assert_eq!((view.members.len(), view.failed.len()), (2, 1));
    }
    first.write(1, 1).wait().unwrap();
}

#[test]
fn a_call_that_is_too_long_is_not_executed() {
    #[derive(Default, Serialize, Deserialize)]
    struct Last(Vec<u8>);

    #[replicated]
    impl Last {
        #[ordered]
        fn set(&mut self, bytes: Vec<u8>) {
            self.0 = bytes;
        }

        #[query]
        fn get(&self) -> Vec<u8> {
            self.0.clone()
        }
    }

    let directory = directory();
    let options = Options { message_bytes: 100, ..options(directory.path()) };
    let last = LastHandle::from(Replica::found(&options, Last::default()).unwrap());
    let error = last.set(vec![1; 200]).wait().unwrap_err();
    assert!(matches!(error, CallError::NotExecuted(Refused::TooLong { most: 100, .. })), "{error}");
    last.set(vec![2; 80]).wait().unwrap();
    assert_eq!(last.get().unwrap(), vec![2; 80]);
}

#[test]
fn one_member_is_asked_and_answers_from_its_own_copy() {
    let directory = directory();
    let (first, second) = (found(directory.path()), join(directory.path()));
    let third = join(directory.path());
    for word in 0..50 {
        first.write(1, word).wait().unwrap();
    }
    // (Local queries may lag behind, these too: an ordered one has seen all that was written.)
    second.all_ordered().wait().unwrap();
    let seats = [&first, &second, &third].map(|member| member.me().seat);
    assert_eq!(first.all_at(seats[1]).wait().unwrap().len(), 50);
    assert_eq!(first.all_at(seats[0]).wait().unwrap().len(), 50, "itself, too");
    let questions: Vec<_> = (0..200).map(|n| third.all_at(seats[n % 3])).collect();
    for question in &questions {
        assert!(question.wait().is_ok(), "a question that found no room was asked again");
    }
    assert_eq!(first.all_at(7).wait(), Err(CallError::Gone(7)));
    drop(third);
    let question = first.all_at(seats[2]);
    assert_eq!(question.wait(), Err(CallError::Gone(seats[2])), "the next view is without it");
}

#[test]
fn what_does_not_fit_into_a_letter_is_refused() {
    #[derive(Default, Serialize, Deserialize)]
    struct Long(Vec<u8>);

    #[replicated]
    impl Long {
        #[query]
        fn repeat(&self, bytes: Vec<u8>, n: usize) -> Vec<u8> {
            bytes.repeat(n)
        }
    }

    let directory = directory();
    let options = options(directory.path());
    let first = LongHandle::from(Replica::found(&options, Long::default()).unwrap());
    let second = LongHandle::from(Replica::join(&options).unwrap());
    let ask = |bytes: usize, n| first.repeat_at(second.me().seat, vec![7; bytes], n).wait();
    assert_eq!(ask(100_000, 1).unwrap().len(), 100_000);
    assert_eq!(ask(100_000, 2), Err(CallError::ResultTooLong));
    let error = ask(200_000, 0).unwrap_err();
    assert!(matches!(error, CallError::NotExecuted(Refused::TooLong { .. })), "{error}");
}

#[test]
fn a_leased_query_sees_what_was_answered_and_asks_no_member() {
    let directory = directory();
    let mut with_leases = options(directory.path());
    with_leases.lease = Some(Duration::from_millis(200));
    let join = || WordsHandle::from(Replica::join(&with_leases).unwrap());
    let first = WordsHandle::from(Replica::found(&with_leases, Words::default()).unwrap());
    let (second, third) = (join(), join());
    let members = [&first, &second, &third];
    for word in 0..50 {
        let writer = members[word % 3];
        writer.write(writer.me().seat, word as u64).wait().unwrap();
        for reader in members {
            assert_eq!(reader.all_leased().unwrap().len(), word + 1, "{:?}", reader.me());
        }
    }
    // A member that is gone may have had a lease: what is written behind it is answered later.
    let gone = third.me().seat;
    drop(third);
    let n = second.write(2, 50).wait().unwrap();
    assert_eq!((n, first.all_leased().unwrap().len()), (50, 51));
    assert!(first.view().members.iter().all(|one| one.seat != gone));
}

#[test]
fn a_group_without_leases_says_so() {
    let directory = directory();
    let member = found(directory.path());
    assert_eq!(member.all_leased(), Err(CallError::NoLease(PATIENCE)));
}

/// A method has the object until a wait for the copy is over, and then asks for the view.
#[test]
fn a_wait_for_the_copy_holds_up_no_method_that_calls() {
    #[derive(Default, Serialize, Deserialize)]
    struct Held(u64);

    static HANDLE: OnceLock<HeldHandle> = OnceLock::new();
    static IS_IN: Barrier = Barrier::new(2);
    static HAS_WAITED: Barrier = Barrier::new(2);

    #[replicated]
    impl Held {
        #[ordered]
        fn call(&mut self) -> u64 {
            IS_IN.wait();
            HAS_WAITED.wait();
            let handle = HANDLE.get().expect("it is set");
            handle.said_at(handle.me().seat).forget();
            self.0 += 1;
            self.0
        }

        #[query]
        fn said(&self) -> u64 {
            self.0
        }
    }

    let directory = directory();
    let handle = HeldHandle::from(Replica::found(&options(directory.path()), Held(0)).unwrap());
    let handle = HANDLE.get_or_init(|| handle);
    let call = handle.call();
    IS_IN.wait();
    assert!(handle.wait_copy(PATIENCE), "it is there, though a method has it");
    HAS_WAITED.wait();
    assert_eq!(call.wait(), Ok(1));
}

#[test]
fn o3_a_query_within_a_look_is_refused() {
    let directory = directory();
    let words = found(directory.path());
    let asked = words.query(|_| {
        words.write(1, 7).forget();
        words.all()
    });
    assert_eq!(asked, Ok(Err(CallError::InHandler)));
    assert_eq!(words.all_ordered().wait(), Ok(vec![(1, 7)]), "the call itself was made");
}
