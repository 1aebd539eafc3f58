//! The remaining disks of a cluster, and the choice of the best one.

use super::claims::{Claims, Gone};
use crate::up::data::Data;
use base::{Ballot, NodeId, Prefix, Rank};
use console::{Failure, Outcome};
use proto::members::Members;
use runtime::offline::{Survivor, Useless};
use std::fmt::Write;
use storage::Directory;
use storage::directory::{self, DirectoryError};

/// One member's directory.
enum Found {
    /// There is no directory, or one without an identity.
    Gone,
    /// The operator leaves it out.
    LeftOut,
    /// The directory exists, and cannot be read.
    Useless(String),
    Whole(Box<Survivor>),
}

/// The directories of all members, from member 1.
pub(super) struct Survivors {
    found: Vec<Found>,
}

/// The disk to continue with.
pub(super) struct Left {
    pub(super) id: u16,
    pub(super) survivor: Box<Survivor>,
    /// The highest ballot that must not be used again.
    pub(super) promised_by_any: Ballot,
    pub(super) what_may_be_lost: String,
}

impl Survivors {
    /// Opens each directory. A directory in use ends this: the cluster, or a part of it, runs.
    pub(super) fn find(data: &Data, without: &[u16]) -> Outcome<Survivors> {
        let mut found = Vec::new();
        for id in 1..=data.members() {
            found.push(if without.contains(&id) {
                Found::LeftOut
            } else {
                Survivors::open(data, id)?
            });
        }
        if let Some(id) = without.iter().find(|id| !(1..=data.members()).contains(id)) {
            return Err(Failure::new(format_args!(
                "--without {id}: the cluster has members 1 to {}",
                data.members()
            )));
        }
        Ok(Survivors { found })
    }

    fn open(data: &Data, id: u16) -> Outcome<Found> {
        let path = data.member(id);
        let directory = match Directory::open_any(&path) {
            Ok(directory) => directory,
            Err(DirectoryError::NoIdentity(_)) => {
                return Ok(match directory::holds_member_files(&path) {
                    Ok(false) => Found::Gone,
                    Ok(true) => Found::Useless(DirectoryError::NoOwner(path).to_string()),
                    Err(error) => Found::Useless(format!("{}: {error}", path.display())),
                });
            }
            Err(error @ DirectoryError::InUse(_)) => {
                return Err(Failure::new(format_args!(
                    "{error}: recovery is for a stopped cluster"
                )));
            }
            Err(error) => return Ok(Found::Useless(error.to_string())),
        };
        if directory.identity().node != NodeId(id) {
            let other = directory.identity().node.0;
            return Ok(Found::Useless(format!("{} is member {other}'s", path.display())));
        }
        Ok(match Survivor::open(directory) {
            Ok(survivor) => Found::Whole(Box::new(survivor)),
            // Its member never took part: it has no content.
            Err(Useless::Log(proto::durable::Unusable::Empty)) => Found::Gone,
            Err(useless) => Found::Useless(useless.to_string()),
        })
    }

    fn whole(&self) -> impl Iterator<Item = (u16, &Survivor)> {
        self.found.iter().zip(1..).filter_map(|(found, id)| match found {
            Found::Whole(survivor) => Some((id, &**survivor)),
            Found::Gone | Found::LeftOut | Found::Useless(_) => None,
        })
    }

    /// The member with the newest log; among equals, the first.
    fn best(&self) -> Option<u16> {
        let newest = self
            .whole()
            .max_by_key(|(id, survivor)| (survivor.holding().newness(), std::cmp::Reverse(*id)));
        newest.map(|(id, _)| id)
    }

    /// The possible configurations by the newest log that is left, which holds everything that is
    /// decided and on a disk here.
    fn claims(&self) -> Option<Claims> {
        let best = self.best()?;
        let (_, survivor) = self.whole().find(|(id, _)| *id == best)?;
        let holding = survivor.holding();
        // A snapshot contains decided entries only, and no log begins behind one.
        let decided = self.whole().filter_map(|(_, survivor)| survivor.snapshot()).max();
        let newest = holding.configuration?;
        Some(Claims::new(&newest, holding.before, decided.unwrap_or(Prefix::ZERO)))
    }

    /// The table of what each disk holds, for people.
    pub(super) fn table(&self) -> String {
        let best = self.best();
        let claims = self.claims();
        let mut text = format!(
            "{:<4}{:<12}{:<16}{:<10}{:<22}{:<12}\n",
            "id", "membership", "incarnation", "ballot", "slots in the log", "snapshot"
        );
        for (found, id) in self.found.iter().zip(1..) {
            let vote = match (&claims, Rank::of_member(NodeId(id))) {
                (Some(of), Some(rank)) if of.newest().voters.contains(rank) => "voter",
                (Some(of), Some(rank)) if of.newest().learners.contains(rank) => "learner",
                (Some(of), Some(rank)) if of.is_leaving(rank) => "leaving",
                (Some(_), _) => "none",
                (None, _) => "?",
            };
            // Writing to a string cannot fail.
            let _ = match found {
                Found::Whole(survivor) => {
                    let of = survivor.holding();
                    let slots = format!("{} to {}", of.start.0, of.end.0);
                    let snapshot = survivor.snapshot().map_or("-".into(), |at| at.0.to_string());
                    let mark = if best == Some(id) { "  <- holds most" } else { "" };
                    writeln!(
                        text,
                        "{id:<4}{vote:<12}{:<16}{:<10}{slots:<22}{snapshot:<12}{mark}",
                        of.incarnation.0, of.last.0
                    )
                }
                Found::Gone if vote == "none" => writeln!(text, "{id:<4}{vote:<12}an empty seat"),
                Found::Gone => writeln!(text, "{id:<4}{vote:<12}lost: there is no data"),
                Found::LeftOut => writeln!(text, "{id:<4}{vote:<12}left out (--without)"),
                Found::Useless(why) => writeln!(text, "{id:<4}{vote:<12}of no use: {why}"),
            };
        }
        text
    }

    /// The disk to continue with: the best one, or `wanted` if that is equally good. Refuses what
    /// I1 of the module above forbids.
    pub(super) fn choose(mut self, wanted: Option<u16>) -> Outcome<Left> {
        // This comes first: a disk that cannot be read is not gone.
        if let Some((id, why)) = self.unread() {
            return Err(Failure::new(format_args!(
                "member {id} may hold more than the others, and cannot be read ({why}): mend it, \
                 or say --without {id} to continue without it"
            )));
        }
        let Some(best) = self.best() else {
            return Err(Failure::new(
                "no disk is left that holds anything: nothing can be recovered; `gregale restore` \
                 writes a backup into a new cluster",
            ));
        };
        let claims = self.claims().ok_or_else(|| {
            Failure::new("no log that is left names the members: restore a backup instead")
        })?;
        let is_left = |of: &Members, rank| self.is_left(of, rank);
        if claims.majority_is_left(is_left, |rank| self.has_change_of(best, rank)) {
            let voters = claims.newest().voters;
            let (n, here) = (voters.len(), voters.iter().filter(|r| is_left(claims.newest(), *r)));
            return Err(Failure::new(format_args!(
                "a majority is left ({} of {n} voters): `gregale up` continues with it and loses \
                 nothing; there is nothing to recover",
                here.count()
            )));
        }
        if let Some(wanted) = wanted.filter(|wanted| *wanted != best) {
            return Err(Failure::new(format_args!(
                "member {best} holds more than member {wanted}: leave --member out, or say \
                 --without {best} if its disk is not to be used"
            )));
        }
        let what_may_be_lost = self.what_may_be_lost(best, &claims);
        let promised = self.whole().map(|(_, survivor)| survivor.holding().promised);
        let promised_by_any = promised.max().unwrap_or_default();
        let at = usize::from(best) - 1;
        match self.found.swap_remove(at) {
            Found::Whole(survivor) => {
                Ok(Left { id: best, survivor, promised_by_any, what_may_be_lost })
            }
            Found::Gone | Found::LeftOut | Found::Useless(_) => {
                unreachable!("the best is one of the whole ones")
            }
        }
    }

    fn unread(&self) -> Option<(u16, &str)> {
        self.found.iter().zip(1..).find_map(|(found, id)| match found {
            Found::Useless(why) => Some((id, why.as_str())),
            Found::Gone | Found::LeftOut | Found::Whole(_) => None,
        })
    }

    /// Whether the disk at `rank` is here, in the incarnation that votes by `members`.
    fn is_left(&self, members: &Members, rank: Rank) -> bool {
        self.whole().any(|(id, survivor)| {
            Rank::of_member(NodeId(id)) == Some(rank)
                && survivor.holding().incarnation == members.incarnation(rank)
        })
    }

    /// Whether the log at `rank` has the newest change of members in the log of `best`.
    fn has_change_of(&self, best: u16, rank: Rank) -> bool {
        let newest = |id: u16| {
            let (_, survivor) = self.whole().find(|(other, _)| *other == id)?;
            survivor.holding().configuration.map(|of| (of.at, of.members))
        };
        newest(rank.member().0) == newest(best)
    }

    fn what_may_be_lost(&self, best: u16, claims: &Claims) -> String {
        let (gone, how) = claims.gone(|of, rank| self.is_left(of, rank));
        let names: Vec<String> = gone.iter().map(|rank| rank.member().to_string()).collect();
        let names = names.join(", ");
        let (end, kept) = self
            .whole()
            .find(|(id, _)| *id == best)
            .map(|(_, of)| (of.holding().end.0, of.snapshot().map_or(0, |at| at.0)))
            .unwrap_or_default();
        let lost = match how {
            Gone::WasMajority => format!(
                "MAY BE LOST: every write that was acknowledged on the disks of members {names} \
                 alone. They were a majority, so there may be any number of them, and nothing that \
                 is left can tell."
            ),
            Gone::MayHaveBeen => format!(
                "MAY BE LOST: every write that was acknowledged on the disks of members {names} \
                 alone. A change of members may have been under way, and by the members before it, \
                 or by those after it, they were a majority: there may be any number of such \
                 writes, and nothing that is left can tell."
            ),
            // They were half, and half of the others may have become a majority by a change.
            Gone::WasNone => format!(
                "Members {names} alone were no majority: member {best} has every write that was \
                 acknowledged while that was so.\n\
                 MAY BE LOST: what was acknowledged after a change of the members that no disk \
                 which is left has heard of."
            ),
        };
        format!(
            "Member {best} is kept with everything that its log holds, slots below {end}.\n\
             {lost}\n\
             MAY APPEAR: writes in slots {kept} to {end} whose outcome no client was told. They \
             become real."
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// A stopped cluster of three without a disk.
    fn cluster(path: &Path) -> Data {
        let text = "version = 1\nname = \"x\"\nmembers = 3\nfounded = true\n";
        std::fs::write(path.join("cluster.toml"), text).unwrap();
        Data::open_any(path).unwrap()
    }

    /// A cluster whose member 1 has nothing but `file`.
    fn left_with(file: &str, content: &[u8]) -> (String, String) {
        let base = tempfile::tempdir().unwrap();
        let data = cluster(base.path());
        std::fs::create_dir(data.member(1)).unwrap();
        std::fs::write(data.member(1).join(file), content).unwrap();
        let found = Survivors::find(&data, &[]).unwrap();
        (found.table(), found.choose(None).err().expect("nothing is whole").to_string())
    }

    #[test]
    fn a_disk_that_cannot_be_read_is_not_said_to_be_gone() {
        let (table, refused) = left_with("identity", b"garbage");
        assert!(table.contains("of no use"), "{table}");
        assert!(refused.contains("cannot be read") && refused.contains("--without 1"), "{refused}");
    }

    #[test]
    fn a_log_that_lost_its_identity_is_not_said_to_be_no_data() {
        for file in ["log-00000000", "snapshot-0000000000000007"] {
            let (table, refused) = left_with(file, b"anything");
            assert!(table.contains("of no use") && table.contains("identity"), "{table}");
            assert!(refused.contains("--without 1"), "{refused}");
        }
        let (_, refused) = left_with("lost+found", b"");
        assert!(refused.contains("no disk is left"), "{refused}");
    }
}
