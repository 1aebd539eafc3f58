//! What a copy is kept from: addresses and process ids that differ between copies, the network past
//! its member, files outside of its directory, processes that outlive it.
//!
//! A host may forbid each of these. Then the copy says so and runs without, or does not start
//! ([`Confine::Strict`]).

use crate::config::Confine;
use console::{Failure, Outcome};
use landlock::{
    ABI, AccessFs, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, RulesetStatus,
};
use nix::sched::{CloneFlags, unshare};
use nix::sys::personality::{self, Persona};
use std::io;
use std::path::{Path, PathBuf};

/// The beginning of a line about what the host forbids, in the copy's output.
pub(super) const NOTE: &str = "gregale: ";

/// What a copy does that is not kept from it.
pub(super) const WRITES: &str = "the program may write to any file";

/// The devices that programs write.
const DEVICES: [&str; 6] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/tty", "/dev/ptmx", "/dev/random"];
/// Where any program may write.
pub(super) const SHARED: [&str; 2] = ["/tmp", "/var/tmp"];

/// The places that a copy writes.
#[derive(Debug)]
pub(super) struct Writes {
    /// Its own directory.
    pub(super) dir: PathBuf,
    /// The directory for its temporary files.
    pub(super) temporary: Option<PathBuf>,
    /// The directory of a socket that it names itself: other files may lie there.
    pub(super) files: Option<PathBuf>,
    /// The directory of its socket: it makes and removes sockets there.
    pub(super) sockets: Option<PathBuf>,
    /// Its page.
    pub(super) page: Option<PathBuf>,
}

/// Confines this process, and what it becomes. Returns whether its children count their ids from 1
/// on, and end with the first of them. A copy with mounts of its own is given no places that it
/// writes: the mounts say that (`apart`).
pub(super) fn confine(
    how: Confine,
    has_own_network: bool,
    writes: Option<&Writes>,
) -> Outcome<bool> {
    if how == Confine::None {
        return Ok(false);
    }
    let fixed = personality::get()
        .and_then(|of| personality::set(of | Persona::ADDR_NO_RANDOMIZE))
        .map(drop)
        .map_err(|error| error.to_string());
    told(how, fixed, "addresses in memory differ between copies")?;
    let own = own_processes(has_own_network).map_err(|error| error.to_string());
    let is_apart = own.is_ok();
    let without = match has_own_network {
        true => "process ids differ between copies, and the program reaches the network",
        false => "process ids differ between copies",
    };
    told(how, own, without)?;
    if let Some(writes) = writes {
        told(how, only_writes(writes), WRITES)?;
    }
    Ok(is_apart)
}

/// Continues without, and says so, or refuses.
pub(super) fn told(how: Confine, done: Result<(), String>, without: &str) -> Outcome<()> {
    let Err(why) = done else { return Ok(()) };
    if how == Confine::Strict {
        return Err(Failure::new(format_args!(
            "this host does not confine the program ({why}), so that {without}: allow it, or say \
             --program-confine best"
        )));
    }
    println!("{NOTE}not confined ({why}): {without}");
    Ok(())
}

/// Process ids and shared memory (System V's) of its own; a network of its own, in which there is
/// nothing. A user other than root gets them with a space of user names in which all are what they
/// were.
fn own_processes(has_own_network: bool) -> io::Result<()> {
    let mut own = CloneFlags::CLONE_NEWPID | CloneFlags::CLONE_NEWIPC;
    own.set(CloneFlags::CLONE_NEWNET, has_own_network);
    if unshare(own).is_ok() {
        return Ok(());
    }
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    unshare(CloneFlags::CLONE_NEWUSER | own)?;
    std::fs::write("/proc/self/setgroups", "deny")?;
    std::fs::write("/proc/self/uid_map", format!("{0} {0} 1", user.as_raw()))?;
    std::fs::write("/proc/self/gid_map", format!("{0} {0} 1", group.as_raw()))
}

fn only_writes(writes: &Writes) -> Result<(), String> {
    let status = restricted(writes).map_err(|error| error.to_string())?;
    match status {
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
        RulesetStatus::NotEnforced => Err("the kernel has no Landlock".to_owned()),
    }
}

fn restricted(writes: &Writes) -> Result<RulesetStatus, RulesetError> {
    let abi = ABI::V3; // with truncation; later ones are about other things than files
    let all = AccessFs::from_write(abi);
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(all)?
        .create()?;
    // What is not there cannot be written.
    let mut allow = |path: &Path, access| -> Result<(), RulesetError> {
        let Ok(place) = PathFd::new(path) else { return Ok(()) };
        (&mut rules).add_rule(PathBeneath::new(place, access)).map(drop)
    };
    allow(&writes.dir, all)?;
    for directory in [&writes.temporary, &writes.files].into_iter().flatten() {
        allow(directory, all)?;
    }
    for place in SHARED {
        allow(Path::new(place), all)?;
    }
    let to_files = AccessFs::WriteFile | AccessFs::Truncate;
    // A process writes there about itself.
    allow(Path::new("/proc"), AccessFs::WriteFile.into())?;
    for file in DEVICES.iter().map(Path::new).chain(writes.page.as_deref()) {
        allow(file, to_files)?;
    }
    if let Some(sockets) = &writes.sockets {
        allow(sockets, AccessFs::MakeSock | AccessFs::RemoveFile)?;
    }
    Ok(rules.restrict_self()?.ruleset)
}
