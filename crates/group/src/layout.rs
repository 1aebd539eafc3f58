//! The layout of a group in subgroups and shards, as its processes describe it.
//!
//! - D1 *Refused by name.* What contradicts itself is refused before anything is made: shards of a
//!   subgroup that overlap, names that are there twice, shards that can never have enough members.
//!   Which members a shard has is the view's (`vsync`, L1 to L5).

use crate::event::Member;
use base::{FABRIC_SEATS_MAX, Rank};
use proto::rdmc::Schedule;
use proto::vsync::{self, Candidates, Mode, SHARDS_MAX, SUBGROUPS_MAX, ShardId, TAGS_WORD};
use serde::Deserialize;

/// A subgroup of a group: a part of its members, in one or several shards that do not overlap. Each
/// shard has an order of its own, which its members alone deliver.
///
/// ```
/// use group::{Schedule, Subgroup};
///
/// let built = vec![
///     Subgroup::new("cache").shards(3).members(2, 3),
///     Subgroup::new("front").seats(&[&[1, 2], &[3, 4]]),
///     Subgroup::new("ledger").tags(&[0b01]).members(1, 2),
///     Subgroup::new("presence").in_memory(),
///     Subgroup::new("gossip").unordered(),
///     Subgroup::new("films").relay(Schedule::Chain),
///     Subgroup::new("prices").senders(&[1, 2]),
///     Subgroup::new("alarms").sender_tags(0b10),
/// ];
/// let written = Subgroup::from_toml(
///     r#"
///     [[subgroup]]
///     name = "cache"
///     shards = 3           # the number of them, of any members
///     least = 2            # a shard with fewer does not work; 1 unless it is given
///     most = 3             # a shard gets no more; all, unless it is given
///
///     [[subgroup]]
///     name = "front"
///     seats = [[1, 2], [3, 4]]
///
///     [[subgroup]]
///     name = "ledger"
///     tags = [0b01]        # of members whose last word of metadata has these bits
///     most = 2
///
///     [[subgroup]]
///     name = "presence"
///     in_memory = true     # in a durable group: on no disk
///
///     [[subgroup]]
///     name = "gossip"
///     unordered = true     # delivered as it is received
///
///     [[subgroup]]
///     name = "films"
///     relay = "chain"      # or sequential, tree, pipeline; the group's, unless it is given
///
///     [[subgroup]]
///     name = "prices"
///     senders = [1, 2]     # the seats that multicast; all members do, unless it is given
///
///     [[subgroup]]
///     name = "alarms"
///     sender_tags = 0b10   # or those with these tags
///     "#,
/// )?;
/// assert_eq!(built, written);
/// # Ok::<(), group::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Written")]
pub struct Subgroup {
    /// The name.
    pub name: String,
    /// The shards.
    pub shards: Shards,
    /// The number of members below which a shard does not work, and its subgroup with it.
    pub least: usize,
    /// The number of members above which a shard gets no more.
    pub most: usize,
    /// The members that multicast there.
    pub senders: Senders,
    /// Whether it is in memory alone, in a durable group ([`crate::Options::durable`]): faster, and
    /// its shards begin again when all their members have died.
    pub in_memory: bool,
    /// Whether its messages have no order but that of each sender, as in a group of
    /// [`Mode::Unordered`]: they are delivered as they are received, have no time, and are on no
    /// disk. It has one shard, no state, and so no object.
    pub unordered: bool,
    /// The schedule by which members relay its large messages over tcp, if it is not that of the
    /// group ([`crate::Options::relay`]).
    pub relay: Option<Schedule>,
}

/// The shards of a subgroup, and the members that each can have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shards {
    /// So many, of any members.
    Count(usize),
    /// One for each list: the members on these seats, from 1.
    Seats(Vec<Vec<usize>>),
    /// One for each word: members whose tags have all of these bits. The tags of a member are the
    /// last word of its [`crate::Options::metadata`].
    Tags(Vec<u64>),
}

/// The members of a subgroup that multicast there. The others only deliver. Delivery waits for no
/// turn of theirs, so a message of few senders is delivered sooner, and at less cost. A shard whose
/// senders are all gone has no messages until one comes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Senders {
    /// All.
    All,
    /// Those on these seats, from 1.
    Seats(Vec<usize>),
    /// Those whose tags have all of these bits ([`Shards::Tags`]).
    Tags(u64),
}

impl Senders {
    /// Whether `member` is one.
    pub(crate) fn has(&self, member: &Member) -> bool {
        let tags = member.metadata[TAGS_WORD];
        Rank::numbered(member.seat).is_some_and(|seat| self.described().contain(seat, tags))
    }

    fn described(&self) -> Candidates {
        match self {
            Senders::All => Candidates::All,
            Senders::Seats(seats) => candidates(seats),
            Senders::Tags(tags) => Candidates::Tagged(*tags),
        }
    }
}

/// The members on these seats.
fn candidates(seats: &[usize]) -> Candidates {
    Candidates::Seats(seats.iter().filter_map(|seat| Rank::numbered(*seat)).collect())
}

/// A subgroup in TOML.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: String,
    shards: Option<usize>,
    seats: Option<Vec<Vec<usize>>>,
    tags: Option<Vec<u64>>,
    least: Option<usize>,
    most: Option<usize>,
    senders: Option<Vec<usize>>,
    sender_tags: Option<u64>,
    #[serde(default)]
    in_memory: bool,
    #[serde(default)]
    unordered: bool,
    relay: Option<WrittenSchedule>,
}

/// A schedule in TOML.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum WrittenSchedule {
    Sequential,
    Chain,
    Tree,
    Pipeline,
}

impl From<WrittenSchedule> for Schedule {
    fn from(written: WrittenSchedule) -> Schedule {
        match written {
            WrittenSchedule::Sequential => Schedule::Sequential,
            WrittenSchedule::Chain => Schedule::Chain,
            WrittenSchedule::Tree => Schedule::BinomialTree,
            WrittenSchedule::Pipeline => Schedule::BinomialPipeline,
        }
    }
}

/// A layout in TOML.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    subgroup: Vec<Subgroup>,
}

impl TryFrom<Written> for Subgroup {
    type Error = String;

    fn try_from(written: Written) -> Result<Subgroup, String> {
        let shards = match (written.shards, written.seats, written.tags) {
            (None, None, None) => Shards::Count(1),
            (Some(count), None, None) => Shards::Count(count),
            (None, Some(seats), None) => Shards::Seats(seats),
            (None, None, Some(tags)) => Shards::Tags(tags),
            _ => {
                let name = written.name;
                return Err(format!("subgroup {name:?}: one of shards, seats and tags says it"));
            }
        };
        let senders = match (written.senders, written.sender_tags) {
            (None, None) => Senders::All,
            (Some(seats), None) => Senders::Seats(seats),
            (None, Some(tags)) => Senders::Tags(tags),
            (Some(_), Some(_)) => {
                let name = written.name;
                return Err(format!("subgroup {name:?}: one of senders and sender_tags says it"));
            }
        };
        Ok(Subgroup {
            name: written.name,
            shards,
            least: written.least.unwrap_or(1),
            most: written.most.unwrap_or(FABRIC_SEATS_MAX),
            senders,
            in_memory: written.in_memory,
            unordered: written.unordered,
            relay: written.relay.map(Schedule::from),
        })
    }
}

impl Subgroup {
    /// A subgroup with one shard of all members.
    pub fn new(name: &str) -> Subgroup {
        Subgroup {
            name: name.to_owned(),
            shards: Shards::Count(1),
            least: 1,
            most: FABRIC_SEATS_MAX,
            senders: Senders::All,
            in_memory: false,
            unordered: false,
            relay: None,
        }
    }

    /// With `count` shards of any members.
    #[must_use]
    pub fn shards(self, count: usize) -> Subgroup {
        Subgroup { shards: Shards::Count(count), ..self }
    }

    /// With one shard for each list, of the members on these seats.
    #[must_use]
    pub fn seats(self, seats: &[&[usize]]) -> Subgroup {
        let seats = seats.iter().map(|seats| seats.to_vec()).collect();
        Subgroup { shards: Shards::Seats(seats), ..self }
    }

    /// With one shard for each word, of members that have all of its tags.
    #[must_use]
    pub fn tags(self, tags: &[u64]) -> Subgroup {
        Subgroup { shards: Shards::Tags(tags.to_vec()), ..self }
    }

    /// With at least and at most so many members a shard.
    #[must_use]
    pub fn members(self, least: usize, most: usize) -> Subgroup {
        Subgroup { least, most, ..self }
    }

    /// With messages of the members on these seats alone.
    #[must_use]
    pub fn senders(self, seats: &[usize]) -> Subgroup {
        Subgroup { senders: Senders::Seats(seats.to_vec()), ..self }
    }

    /// With messages of the members alone that have all of these tags.
    #[must_use]
    pub fn sender_tags(self, tags: u64) -> Subgroup {
        Subgroup { senders: Senders::Tags(tags), ..self }
    }

    /// In memory alone, in a durable group.
    #[must_use]
    pub fn in_memory(self) -> Subgroup {
        Subgroup { in_memory: true, ..self }
    }

    /// Without an order.
    #[must_use]
    pub fn unordered(self) -> Subgroup {
        Subgroup { unordered: true, ..self }
    }

    /// With a schedule of its own by which members relay large messages over tcp.
    #[must_use]
    pub fn relay(self, schedule: Schedule) -> Subgroup {
        Subgroup { relay: Some(schedule), ..self }
    }

    /// The subgroups that a text in TOML describes.
    ///
    /// # Errors
    /// [`crate::Error::Options`]: what in the text is not understood, unknown keys among others.
    pub fn from_toml(text: &str) -> Result<Vec<Subgroup>, crate::Error> {
        let file: Result<File, _> = toml::from_str(text);
        file.map(|file| file.subgroup).map_err(|error| crate::Error::Options(error.to_string()))
    }

    /// The number of its shards.
    pub const fn n_shards(&self) -> usize {
        match &self.shards {
            Shards::Count(count) => *count,
            Shards::Seats(seats) => seats.len(),
            Shards::Tags(tags) => tags.len(),
        }
    }

    fn described(&self) -> vsync::Subgroup {
        let shards = match &self.shards {
            Shards::Count(count) => vec![Candidates::All; *count],
            Shards::Seats(shards) => shards.iter().map(|seats| candidates(seats)).collect(),
            Shards::Tags(tags) => tags.iter().map(|tags| Candidates::Tagged(*tags)).collect(),
        };
        let Subgroup { least, most, in_memory, unordered, relay: schedule, .. } = *self;
        let mode =
            if unordered { Some(Mode::Unordered) } else { in_memory.then_some(Mode::Ordered) };
        let (name, senders) = (self.name.clone(), self.senders.described());
        vsync::Subgroup { name, shards, n_least: least, n_most: most, senders, mode, schedule }
    }

    /// D1
    fn check(&self, seats: usize) -> Result<(), String> {
        let Subgroup { name, least, most, .. } = self;
        let n_shards = self.n_shards();
        if n_shards == 0 {
            return Err(format!("subgroup {name:?}: no shard; give it 1 or more"));
        }
        if *least == 0 || most < least {
            return Err(format!(
                "subgroup {name:?}: shards of {least} to {most} members; the fewest can be 1, and \
                 the most as many"
            ));
        }
        if self.unordered && (self.in_memory || self.relay.is_some()) {
            return Err(format!(
                "subgroup {name:?}: without an order it is in memory, and its messages go through \
                 rings: drop in_memory and relay there"
            ));
        }
        if self.unordered && n_shards > 1 {
            return Err(format!(
                "subgroup {name:?}: without an order it has one shard: give each a subgroup"
            ));
        }
        if n_shards * least > seats {
            return Err(format!(
                "subgroup {name:?}: {n_shards} shards of {least} members or more, but there are \
                 {seats} seats"
            ));
        }
        if let Shards::Seats(shards) = &self.shards {
            self.check_seats(shards, seats)?;
        }
        self.check_senders(seats)
    }

    fn check_senders(&self, seats: usize) -> Result<(), String> {
        let name = &self.name;
        let is_by_seats = matches!(self.shards, Shards::Seats(_));
        if self.senders != Senders::All && self.n_shards() > 1 && !is_by_seats {
            return Err(format!(
                "subgroup {name:?}: members without a sender could be put into one of its shards: \
                 give each shard its seats, or a subgroup of its own"
            ));
        }
        let Senders::Seats(senders) = &self.senders else { return Ok(()) };
        if let Some(seat) = senders.iter().find(|seat| **seat == 0 || **seat > seats) {
            return Err(format!("subgroup {name:?}: a sender on seat {seat} of {seats}"));
        }
        let Shards::Seats(shards) = &self.shards else {
            let is_any = !senders.is_empty();
            return if is_any { Ok(()) } else { Err(format!("subgroup {name:?}: no senders")) };
        };
        let is_silent = |shard: &Vec<usize>| !shard.iter().any(|seat| senders.contains(seat));
        match shards.iter().position(is_silent) {
            Some(shard) => Err(format!(
                "subgroup {name:?}: shard {shard} has no seat of a sender, so nothing would be \
                 multicast there"
            )),
            None => Ok(()),
        }
    }

    fn check_seats(&self, shards: &[Vec<usize>], seats: usize) -> Result<(), String> {
        let Subgroup { name, least, .. } = self;
        for (shard, own) in shards.iter().enumerate() {
            if let Some(seat) = own.iter().find(|seat| **seat == 0 || **seat > seats) {
                return Err(format!(
                    "subgroup {name:?}: seat {seat} of {seats}; they begin with 1"
                ));
            }
            if own.len() < *least {
                return Err(format!(
                    "subgroup {name:?}: shard {shard} has {} seats, and works with {least} members",
                    own.len()
                ));
            }
            let before =
                shards[..shard].iter().position(|other| other.iter().any(|one| own.contains(one)));
            if let Some(before) = before {
                return Err(format!(
                    "subgroup {name:?}: shards {before} and {shard} overlap; shards of one subgroup \
                     cannot, so make two subgroups"
                ));
            }
        }
        Ok(())
    }
}

/// D1
pub(crate) fn check(layout: &[Subgroup], seats: usize) -> Result<(), String> {
    if layout.len() > SUBGROUPS_MAX {
        return Err(format!("{} subgroups; there can be {SUBGROUPS_MAX}", layout.len()));
    }
    for (at, subgroup) in layout.iter().enumerate() {
        if layout[..at].iter().any(|other| other.name == subgroup.name) {
            return Err(format!("subgroup {:?} is there twice", subgroup.name));
        }
        subgroup.check(seats)?;
    }
    let n_shards: usize = layout.iter().map(Subgroup::n_shards).sum();
    if n_shards > SHARDS_MAX {
        return Err(format!("{n_shards} shards; there can be {SHARDS_MAX}"));
    }
    Ok(())
}

/// As the machine of views knows it.
pub(crate) fn described(layout: &[Subgroup]) -> Vec<vsync::Subgroup> {
    layout.iter().map(Subgroup::described).collect()
}

/// The names of the subgroups, also of a group without a layout.
pub(crate) fn names(layout: &[Subgroup]) -> Vec<String> {
    if layout.is_empty() {
        return vec![vsync::Subgroup::whole().name];
    }
    layout.iter().map(|subgroup| subgroup.name.clone()).collect()
}

/// The shard with this number of the subgroup with this name.
pub(crate) fn shard(layout: &[Subgroup], name: &str, shard: usize) -> Option<ShardId> {
    let subgroup = names(layout).iter().position(|one| one == name)?;
    let n_shards = layout.get(subgroup).map_or(1, Subgroup::n_shards);
    (shard < n_shards).then_some(ShardId { subgroup: subgroup as u16, shard: shard as u16 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(layout: &[Subgroup]) -> String {
        check(layout, 6).expect_err("it contradicts itself")
    }

    #[test]
    fn d1_what_contradicts_itself_is_refused_by_name() {
        let cache = || Subgroup::new("cache");
        assert_eq!(check(&[cache(), Subgroup::new("front").shards(3).members(2, 2)], 6), Ok(()));
        assert!(refused(&[cache(), cache()]).contains("\"cache\" is there twice"));
        assert!(
            refused(&[cache().seats(&[&[1, 2], &[3], &[4, 2]])]).contains("shards 0 and 2 overlap")
        );
        assert!(refused(&[cache().seats(&[&[1, 7]])]).contains("seat 7 of 6"));
        assert!(
            refused(&[cache().seats(&[&[1, 2], &[3]]).members(2, 2)]).contains("shard 1 has 1")
        );
        assert!(refused(&[cache().shards(4).members(2, 3)]).contains("6 seats"));
        assert!(refused(&[cache().shards(0)]).contains("no shard"));
        assert!(refused(&[cache().members(3, 2)]).contains("3 to 2"));
        assert!(refused(&vec![cache(); 9]).contains("9 subgroups"));
        assert!(refused(&[cache().unordered().in_memory()]).contains("drop in_memory"));
        assert!(refused(&[cache().unordered().shards(2)]).contains("one shard"));
        assert!(refused(&[cache().unordered().relay(Schedule::Chain)]).contains("drop in_memory"));
        assert!(refused(&[cache().senders(&[])]).contains("no senders"));
        assert!(refused(&[cache().senders(&[1, 7])]).contains("a sender on seat 7 of 6"));
        let of_one = cache().seats(&[&[1, 2], &[3, 4]]).senders(&[1, 2]);
        assert!(refused(&[of_one]).contains("shard 1 has no seat of a sender"));
        let of_any = cache().shards(2).sender_tags(1);
        assert!(refused(&[of_any]).contains("give each shard its seats"));
        let of_two = cache().seats(&[&[1, 2], &[3, 4]]).senders(&[2, 3]);
        assert_eq!(check(&[of_two], 6), Ok(()));
    }

    #[test]
    fn unknown_keys_and_two_kinds_of_shards_are_refused() {
        let refused = |text: &str| Subgroup::from_toml(text).unwrap_err().to_string();
        let unknown = refused("[[subgroup]]\nname = \"cache\"\nshard = 3");
        assert!(unknown.contains("unknown field `shard`"), "{unknown}");
        let both = refused("[[subgroup]]\nname = \"cache\"\nshards = 3\ntags = [1]");
        assert!(both.contains("one of shards, seats and tags"), "{both}");
        let both = refused("[[subgroup]]\nname = \"cache\"\nsenders = [1]\nsender_tags = 1");
        assert!(both.contains("one of senders and sender_tags"), "{both}");
        assert!(refused("[[subgroups]]").contains("subgroups"));
        let relay = refused("[[subgroup]]\nname = \"cache\"\nrelay = \"star\"");
        assert!(relay.contains("unknown variant `star`"), "{relay}");
    }
}
