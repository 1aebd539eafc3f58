//! A program with a race (`race.py`): copies that are fed in a relaxed order part over it, which
//! their answers show; copies that are fed one connection after the other do not.

use crate::copies::program;
use crate::support::{Cluster, wait_until};
use crate::unmodified::Client;
use std::io::ErrorKind;
use std::net::TcpStream;

/// The entries from one point to the next.
const COMPARE: u64 = 10;
/// The most races until copies have to have parted. (About half of them did when this was written.)
const RACES_MAX: u32 = 100;
/// The most clusters until a copy that begins again has to answer as the majority's copies did.
const CLUSTERS_MAX: u32 = 20;
/// What is said of a copy that has parted from the others.
const PARTED: &str = "are not those of a majority's copies";

fn start(order: &str) -> (Cluster, tempfile::TempDir) {
    let genesis = tempfile::tempdir().unwrap();
    std::fs::write(genesis.path().join("race.py"), include_str!("race.py")).unwrap();
    let from = genesis.path().to_str().unwrap();
    let compare = COMPARE.to_string();
    let how = [
        &["--replicate", "python3 {dir}/race.py {socket}", "--genesis", from][..],
        &["--program-order", order, "--program-compare", &compare],
    ];
    (Cluster::start_with(&how.concat()), genesis)
}

/// A client of each member, but of one that is being dropped.
struct Clients(Vec<Option<Client<TcpStream>>>);

impl Clients {
    fn of(cluster: &Cluster) -> Clients {
        Clients((1..=3).map(|id| Some(Client::of(cluster, id))).collect())
    }

    /// Says the words to a member each, then hears the answers.
    fn ask(&mut self, words: &[&str]) {
        for (client, words) in self.0.iter_mut().zip(words) {
            if client.as_mut().is_some_and(|client| client.try_say(words).is_err()) {
                *client = None;
            }
        }
        for (client, _) in self.0.iter_mut().zip(words) {
            match client.as_mut().map(Client::try_line) {
                Some(Ok(line)) if !line.is_empty() => {}
                Some(Err(error)) if error.kind() == ErrorKind::WouldBlock => {
                    panic!("no answer: {error}")
                }
                // The connection has ended.
                Some(Ok(_) | Err(_)) => *client = None,
                None => {}
            }
        }
    }

    /// Two threads of each copy race for the word; then all copies pass two points.
    fn race(&mut self) {
        self.ask(&["swap 5000 one\n", "swap 100 two\n"]);
        for _ in 0..2 * COMPARE {
            self.ask(&["look\n"; 3]);
        }
    }

    fn n_left(&self) -> usize {
        self.0.iter().flatten().count()
    }
}

/// The verdicts that are no agreement: with a minority, and without a majority.
fn parted(cluster: &Cluster) -> (u64, u64) {
    let count = |of: &str| {
        let counts = (1..=3).map(|id| program(cluster, id, id)["verdicts"][of].as_u64());
        counts.flatten().max().unwrap_or(0)
    };
    (count("differed"), count("split"))
}

#[test]
fn a_race_parts_copies_in_a_relaxed_order_and_the_minority_begins_again() {
    // The copy executes the race again, too, and may lose it again, as often as it begins.
    let n_clusters = (1..=CLUSTERS_MAX).find(|_| the_minority_serves_again());
    println!("in step again in cluster {n_clusters:?}");
    assert!(n_clusters.is_some(), "the minority's copy has parted again each time");
}

/// Whether the copy that has parted from the others serves again; otherwise it has parted again.
fn the_minority_serves_again() -> bool {
    let (mut cluster, _genesis) = start("relaxed");
    let mut clients = Clients::of(&cluster);
    let mut n_races = 0;
    while parted(&cluster).0 == 0 {
        assert!(n_races < RACES_MAX, "no copy has parted from the others");
        clients.race();
        n_races += 1;
    }
    // The clients of its member alone are closed, and the others are served meanwhile.
    let line = cluster.wait_for(PARTED);
    assert!(line.contains("executes the transcript again"), "{line}");
    wait_until("the member's client to be closed", || {
        clients.ask(&["look\n"; 3]);
        clients.n_left() == 2
    });
    let is_back = cluster.wait_for_one(&["serves again", PARTED]).contains("serves again");
    println!("parted after {n_races} races");
    assert_eq!(cluster.stop(), Some(0));
    is_back
}

#[test]
fn a_race_parts_no_copies_that_are_fed_one_connection_after_the_other() {
    let (mut cluster, _genesis) = start("serial");
    let mut clients = Clients::of(&cluster);
    for _ in 0..30 {
        clients.race();
    }
    wait_until("the comparisons", || {
        program(&cluster, 1, 1)["verdicts"]["matched"].as_u64() > Some(30)
    });
    assert_eq!((parted(&cluster), clients.n_left()), ((0, 0), 3));
    assert_eq!(cluster.stop(), Some(0));
}
