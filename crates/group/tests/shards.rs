//! Groups with a layout, in one process: each member is a thread of its own.

use group::{
    CallError, Event, Fate, Group, Objects, Options, Refused, Replica, Replicas, ShardId, Subgroup,
    View, replicated,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

#[path = "common/memory.rs"]
mod memory;
use memory::directory;

const PATIENCE: Duration = Duration::from_secs(30);

fn options(directory: &Path, layout: &[Subgroup]) -> Options {
    Options { layout: layout.to_vec(), ..memory::options("shards", directory, PATIENCE) }
}

/// The next event that `is` picks.
fn next<T>(group: &Group, mut is: impl FnMut(Event) -> Option<T>) -> T {
    let by = Instant::now() + PATIENCE;
    loop {
        let left = by.saturating_duration_since(Instant::now());
        if let Some(found) = is(group.next(left).expect("the event comes")) {
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

/// The seats of the shards of a subgroup.
fn seats(view: &View, subgroup: u16) -> Vec<Vec<usize>> {
    let shards = view.shards.iter().filter(|shard| shard.id.subgroup == subgroup);
    shards.map(|shard| shard.members.iter().map(|one| one.seat).collect()).collect()
}

#[test]
fn messages_are_delivered_in_their_shard_and_nowhere_else() {
    let directory = directory();
    let layout = [Subgroup::new("all"), Subgroup::new("pairs").shards(2).members(1, 2)];
    let options = options(directory.path(), &layout);
    let groups: Vec<Group> = (0..4)
        .map(|n| if n == 0 { Group::found(&options) } else { Group::join(&options) }.unwrap())
        .collect();
    let views: Vec<View> = groups.iter().map(|group| next_view(group, 4)).collect();
    assert!(views.iter().all(|view| view.shards == views[0].shards), "one roster");
    assert_eq!(seats(&views[0], 0), [[1, 2, 3, 4]]);
    assert_eq!(seats(&views[0], 1), [[1, 3], [2, 4]]);
    let pair = |shard| options.shard("pairs", shard).unwrap();
    let refused = groups[0].send_in(pair(1), b"x", PATIENCE);
    assert_eq!(refused, Err(Refused::OtherShard { subgroup: "pairs".into(), shard: 1 }));
    for (n, group) in groups.iter().enumerate() {
        for _ in 0..50 {
            group.send_in(pair(n % 2), &[n as u8], PATIENCE).unwrap();
            group.send_in(ShardId::default(), &[n as u8], PATIENCE).unwrap();
        }
    }
    let told = |group: &Group| {
        let (mut all, mut pairs): (Vec<_>, Vec<_>) = (Vec::new(), Vec::new());
        while all.len() < 200 || pairs.len() < 100 {
            let one = next(group, |event| match event {
                Event::Delivered(one) => Some(one),
                _ => None,
            });
            let told = (one.sequence, one.bytes[0]);
            if one.shard == ShardId::default() { all.push(told) } else { pairs.push(told) }
        }
        (all, pairs)
    };
    let told: Vec<_> = groups.iter().map(told).collect();
    assert!(told.iter().all(|(all, _)| *all == told[0].0), "one order of all");
    assert!(told[0].1 == told[2].1 && told[1].1 == told[3].1, "one order in each pair");
    assert!(told.iter().zip(0u8..).all(|((_, pair), n)| pair.iter().all(|one| one.1 % 2 == n % 2)));
}

#[test]
fn members_that_are_no_senders_deliver_and_are_refused_by_name() {
    let directory = directory();
    let layout = [Subgroup::new("prices").senders(&[2]), Subgroup::new("all")];
    let options = options(directory.path(), &layout);
    let groups: Vec<Group> = (0..3)
        .map(|n| if n == 0 { Group::found(&options) } else { Group::join(&options) }.unwrap())
        .collect();
    let views: Vec<View> = groups.iter().map(|group| next_view(group, 3)).collect();
    let senders = |shard: &group::Shard| -> Vec<usize> {
        shard.senders.iter().map(|member| member.seat).collect()
    };
    assert_eq!(views[1].shards.iter().map(senders).collect::<Vec<_>>(), [vec![2], vec![1, 2, 3]]);
    let prices = options.shard("prices", 0).unwrap();
    for group in [&groups[0], &groups[2]] {
        let refused = group.send_in(prices, b"x", PATIENCE).unwrap_err();
        assert_eq!(refused, Refused::NoSender { subgroup: "prices".into() });
        assert!(refused.to_string().contains("Subgroup::senders"), "{refused}");
    }
    for n in 0..50 {
        groups[1].send_in(prices, &[n], PATIENCE).unwrap();
    }
    for group in &groups {
        for n in 0..50 {
            let delivered = next(group, |event| match event {
                Event::Delivered(one) => Some(one),
                _ => None,
            });
            assert_eq!((delivered.sender.seat, delivered.bytes[0]), (2, n));
        }
    }
}

#[test]
fn a_subgroup_that_lacks_members_is_named_and_takes_nothing_until_they_come() {
    let directory = directory();
    let layout = [Subgroup::new("all"), Subgroup::new("pairs").shards(2).members(2, 2)];
    let options = options(directory.path(), &layout);
    let group = Group::found(&options).unwrap();
    let named = next(&group, |event| match event {
        Event::InadequateSubgroup { subgroup } => Some(subgroup),
        _ => None,
    });
    assert_eq!(named, "pairs");
    let pair = options.shard("pairs", 0).unwrap();
    let refused = group.send_in(pair, b"x", PATIENCE).unwrap_err();
    assert_eq!(refused, Refused::InadequateSubgroup { subgroup: "pairs".into(), least: 2 });
    assert!(refused.to_string().contains("fewer than 2"), "{refused}");
    let number = group.send(b"others go on").unwrap();
    assert_eq!(group.wait_delivered(number, PATIENCE), Ok(true));
    let others: Vec<Group> = (0..3).map(|_| Group::join(&options).unwrap()).collect();
    let view = next_view(&group, 4);
    assert!(view.shards.iter().all(|shard| shard.is_adequate), "{:?}", view.shards);
    let number = group.send_in(pair, b"x", PATIENCE).unwrap();
    assert_eq!(group.wait_fate(1, number, PATIENCE), Ok(Fate::Delivered));
    drop(others);
}

#[test]
fn a_process_with_another_layout_is_refused_and_its_own_is_named() {
    let directory = directory();
    let of = |layout: &[Subgroup]| options(directory.path(), layout);
    let _group = Group::found(&of(&[Subgroup::new("all"), Subgroup::new("pairs")])).unwrap();
    let other = of(&[Subgroup::new("all"), Subgroup::new("pairs").members(1, 2)]);
    let refused = Group::join(&other).unwrap_err().to_string();
    assert!(refused.contains("layout [Subgroup { name: \"all\""), "{refused}");
    let overlap = of(&[Subgroup::new("front").seats(&[&[1, 2], &[2]])]);
    let refused = Group::join(&overlap).unwrap_err().to_string();
    assert!(refused.contains("\"front\": shards 0 and 1 overlap"), "{refused}");
}

/// A member that is moved to another shard, while it multicasts in the one that it leaves.
#[test]
fn what_a_moved_member_could_not_send_is_told_and_nobody_delivers_it() {
    let directory = directory();
    let options = options(directory.path(), &[Subgroup::new("halves").shards(2).members(1, 4)]);
    let mut groups: Vec<Group> = (0..3)
        .map(|n| if n == 0 { Group::found(&options) } else { Group::join(&options) }.unwrap())
        .collect();
    assert_eq!(seats(&next_view(&groups[0], 3), 0), [vec![1, 3], vec![2]]);
    next_view(&groups[2], 3);
    let second = groups.remove(1);
    let [first, moved] = &groups[..] else { panic!("two") };
    let half = options.shard("halves", 0).unwrap();
    let delivered = std::thread::scope(|scope| {
        // The first takes nothing for a while, so that the moved one's messages wait.
        scope.spawn(|| second.close(PATIENCE).unwrap());
        let mut n_sent = 0;
        let refused = loop {
            match moved.send_in(half, b"x", Duration::from_millis(100)) {
                Ok(number) => n_sent = number,
                Err(Refused::Busy { .. }) => {}
                Err(refused) => break refused,
            }
        };
        assert_eq!(refused, Refused::OtherShard { subgroup: "halves".into(), shard: 0 });
        let fates: Vec<Fate> =
            (1..=n_sent).map(|number| moved.wait_fate(0, number, PATIENCE).unwrap()).collect();
        let n_delivered = fates.iter().take_while(|fate| **fate == Fate::Delivered).count();
        assert!(fates[n_delivered..].iter().all(|fate| *fate == Fate::Unsent), "{fates:?}");
        n_delivered
    });
    let number = first.send_in(half, b"last", PATIENCE).unwrap();
    assert_eq!(first.wait_fate(0, number, PATIENCE), Ok(Fate::Delivered));
    let mut n_told = 0;
    next(first, |event| match event {
        Event::Delivered(one) if *one.bytes == *b"last" => Some(()),
        Event::Delivered(_) => {
            n_told += 1;
            None
        }
        _ => None,
    });
    assert_eq!(n_told, delivered, "what was delivered there, and no more");
    let other = options.shard("halves", 1).unwrap();
    let number = moved.send_in(other, b"here", PATIENCE).unwrap();
    assert_eq!(moved.wait_fate(0, number, PATIENCE), Ok(Fate::Delivered));
}

// ---- objects ----

/// Numbers by their names.
#[derive(Default, Serialize, Deserialize)]
struct Numbers(BTreeMap<String, u64>);

#[replicated]
impl Numbers {
    /// The number that the name had before.
    #[ordered]
    fn put(&mut self, name: String, number: u64) -> Option<u64> {
        self.0.insert(name, number)
    }

    #[query]
    fn get(&self, name: String) -> Option<u64> {
        self.0.get(&name).copied()
    }

    #[query]
    fn count(&self) -> usize {
        self.0.len()
    }
}

/// A count of visits.
#[derive(Default, Serialize, Deserialize)]
struct Visits(u64);

#[replicated]
impl Visits {
    #[ordered]
    fn visit(&mut self) -> u64 {
        self.0 += 1;
        self.0
    }
}

struct Site {
    objects: Objects,
    numbers: NumbersHandle,
    visits: VisitsHandle,
}

fn site(options: &Options, founds: bool) -> Site {
    let replicas =
        Replicas::of(options).object("numbers", Numbers::default).object("visits", Visits::default);
    let objects = if founds { replicas.found() } else { replicas.join() }.unwrap();
    let (numbers, visits) = (objects.get("numbers").unwrap(), objects.get("visits").unwrap());
    Site { objects, numbers: numbers.into(), visits: visits.into() }
}

#[test]
fn objects_in_shards_are_called_from_everywhere_and_their_copies_follow_the_members() {
    let directory = directory();
    let layout = [Subgroup::new("numbers").shards(2).members(1, 2), Subgroup::new("visits")];
    let options = options(directory.path(), &layout);
    let sites: Vec<Site> = (0..4).map(|n| site(&options, n == 0)).collect();
    let all_there = |view: &View| view.members.len() == 4;
    for site in &sites {
        site.numbers.wait_view(all_there, PATIENCE).expect("all come");
        assert!(site.numbers.wait_copy(PATIENCE));
    }
    assert!(sites[0].objects.get::<Visits>("numbers").is_none(), "another type");
    // By key, from every member, whether it is in the key's shard or not.
    for n in 0..40u64 {
        let name = format!("name {n}");
        let caller = &sites[n as usize % 4].numbers;
        let put = caller.for_key(&name).put(name, n).wait();
        assert_eq!(put, Ok(None), "executed once");
    }
    let counts: Vec<usize> = (0..2)
        .map(|shard| sites[3].numbers.in_shard(shard).count_ordered().wait().unwrap())
        .collect();
    assert_eq!(counts.iter().sum::<usize>(), 40);
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    // Copies: one's own, and a member's of the other shard.
    let first = &sites[0].numbers;
    let (own, other) = (first.own_shard().unwrap(), 1 - first.own_shard().unwrap());
    assert_eq!(first.count(), Ok(counts[own]));
    assert_eq!(first.in_shard(other).count(), Err(CallError::NoCopy));
    let seat = first.in_shard(other).seats()[0];
    assert_eq!(first.count_at(seat).wait(), Ok(counts[other]));
    assert_eq!(first.in_shard(own).count_at(seat).wait(), Err(CallError::Declined(seat)));
    // The other subgroup has one order of all.
    let visits: Vec<u64> = sites.iter().map(|site| site.visits.visit().wait().unwrap()).collect();
    assert_eq!(visits, [1, 2, 3, 4]);
    // A shard whose members all leave in turn gets another's member, and its copy with it.
    let [one, two]: [usize; 2] = first.in_shard(other).seats().try_into().unwrap();
    let mut sites: BTreeMap<usize, Site> =
        sites.into_iter().map(|site| (site.numbers.me().seat, site)).collect();
    leave(&mut sites, one);
    let newcomer = site(&options, false);
    assert_eq!(newcomer.numbers.own_shard(), Some(other), "where there are fewest");
    assert_eq!(newcomer.numbers.count(), Ok(counts[other]), "with the copy of the shard");
    leave(&mut sites, two);
    assert_eq!(newcomer.numbers.in_shard(other).count_ordered().wait(), Ok(counts[other]));
    assert_eq!(newcomer.visits.visit().wait(), Ok(5));
}

fn leave(sites: &mut BTreeMap<usize, Site>, seat: usize) {
    let site = sites.remove(&seat).expect("it is there");
    let n_left = sites.len();
    let replica = Replica::clone(&site.numbers);
    drop(site);
    replica.close(PATIENCE).unwrap();
    for other in sites.values() {
        let is_gone = |view: &View| view.members.iter().all(|one| one.seat != seat);
        other.numbers.wait_view(is_gone, PATIENCE).unwrap_or_else(|| panic!("{n_left} see it go"));
    }
}

#[test]
fn calls_of_members_that_are_no_senders_are_made_by_one() {
    let directory = directory();
    let layout = [Subgroup::new("numbers").senders(&[2]), Subgroup::new("visits")];
    let options = options(directory.path(), &layout);
    let mut sites: Vec<Site> = (0..3).map(|n| site(&options, n == 0)).collect();
    for site in &sites {
        site.numbers.wait_view(|view| view.members.len() == 3, PATIENCE).expect("all come");
        assert!(site.numbers.wait_copy(PATIENCE));
    }
    for (n, site) in (0..).zip(&sites) {
        assert_eq!(site.numbers.put("a".into(), n).wait(), Ok(n.checked_sub(1)));
    }
    sites.remove(1);
    let caller = &sites[0].numbers;
    caller.wait_view(|view| view.members.len() == 2, PATIENCE).expect("it is seen to go");
    let refused = Refused::NoSender { subgroup: "numbers".into() };
    assert_eq!(caller.put("a".into(), 3).wait(), Err(CallError::NotExecuted(refused)));
    assert_eq!(caller.get("a".into()), Ok(Some(2)), "its copy is there");
}

#[test]
fn an_object_without_an_order_is_refused() {
    let directory = directory();
    let options = options(directory.path(), &[Subgroup::new("gossip").unordered()]);
    let refused = Replicas::of(&options).object("gossip", Visits::default).found();
    let refused = refused.expect_err("copies would differ").to_string();
    assert!(refused.contains("\"gossip\", which has no order"), "{refused}");
}

#[test]
fn a_call_that_a_dead_member_was_to_make_is_unknown() {
    let directory = directory();
    let layout = [Subgroup::new("numbers").seats(&[&[1, 2, 3], &[4, 5]]), Subgroup::new("visits")];
    let options = options(directory.path(), &layout);
    let mut sites: Vec<Site> = (0..5).map(|n| site(&options, n == 0)).collect();
    let caller = sites[1].numbers.in_shard(1);
    caller.wait_view(|view| view.members.len() == 5, PATIENCE).expect("all come");
    assert_eq!(caller.put("a".into(), 1).wait(), Ok(None));
    // Both members of the shard are gone without leave.
    drop(sites.split_off(3));
    let outcome = caller.put("a".into(), 2).wait();
    assert!(
        matches!(
            outcome,
            Err(CallError::Lost(_) | CallError::Declined(_) | CallError::NotExecuted(_))
        ),
        "{outcome:?}"
    );
    caller.wait_view(|view| view.members.len() == 3, PATIENCE).expect("they are seen to go");
    let refused = Refused::OtherShard { subgroup: "numbers".into(), shard: 1 };
    assert_eq!(caller.put("a".into(), 3).wait(), Err(CallError::NotExecuted(refused)));
    let back = site(&options, false);
    assert_eq!(back.numbers.own_shard(), Some(1));
    assert_eq!(back.numbers.count(), Ok(0), "nobody was left that had it: the shard begins again");
    caller.wait_view(|view| view.members.len() == 4, PATIENCE).expect("it is seen to come");
    assert_eq!(caller.put("a".into(), 4).wait(), Ok(None));
}

/// Sites in two shards of one member each.
fn two_shards(options: &Options) -> [Site; 2] {
    let sites = [site(options, true), site(options, false)];
    let is_whole = |view: &View| view.shards.iter().all(|shard| shard.is_adequate);
    for site in &sites {
        site.numbers.wait_view(is_whole, PATIENCE).expect("both come");
        assert!(site.numbers.wait_copy(PATIENCE));
    }
    sites
}

fn in_two_shards() -> [Subgroup; 2] {
    [Subgroup::new("numbers").seats(&[&[1], &[2]]), Subgroup::new("visits")]
}

#[test]
fn a_process_that_leaves_waits_for_the_outcomes_of_calls_to_another_shard() {
    let directory = directory();
    let [first, second] = two_shards(&options(directory.path(), &in_two_shards()));
    let there = first.numbers.in_shard(1);
    let calls: Vec<_> = (0..20).map(|n| there.put("a".into(), n)).collect();
    let replica = Replica::clone(&first.numbers);
    drop((first, there));
    assert_eq!(replica.close(PATIENCE), Ok(()));
    let outcomes: Vec<_> = calls.iter().map(|call| call.wait()).collect();
    let befores = (0..20).map(|n: u64| Ok(n.checked_sub(1)));
    assert_eq!(outcomes, befores.collect::<Vec<_>>());
    assert_eq!(second.numbers.get("a".into()), Ok(Some(19)));
}

#[test]
fn large_calls_to_another_shard_are_made_and_too_long_ones_are_said_to_be() {
    let directory = directory();
    let options = options(directory.path(), &in_two_shards());
    let [first, _second] = two_shards(&Options { message_bytes: 8192, ..options });
    let there = first.numbers.in_shard(1);
    let calls: Vec<_> = (0..40).map(|n| there.put("x".repeat(5000 + n), 0)).collect();
    let outcomes: Vec<_> = calls.iter().map(|call| call.wait()).collect();
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    let long = there.put("x".repeat(9000), 0).wait();
    let Err(CallError::NotExecuted(Refused::TooLong { most, .. })) = long else {
        panic!("{long:?}")
    };
    assert_eq!(most, 8182);
}
