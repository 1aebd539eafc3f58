//! Opening and ending a member: its region, its locks, and settings that cannot work at all.

use super::handshake::Local;
use super::provider::TcpFabric;
use crate::{OpenError, Setup};
use region::robust::Held;
use region::{Owner, Region};
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

/// The time to wait for a watcher that holds a lock for a moment: see [`Held::hold`].
const HOLD_FOR: Duration = Duration::from_millis(10);

impl TcpFabric {
    /// Makes this member's region, which must not exist yet, and opens its end of the group.
    ///
    /// Only for an explicit bootstrap or replacement: see [`region::Region::create`]. `listener` is
    /// bound to the address that the peers know; `addresses` are those of all members by rank (the
    /// member's own one is not used). The calling thread must be the one that polls: sentinels
    /// report the end of this thread.
    ///
    /// # Errors
    /// [`OpenError`]; nothing is left behind.
    pub fn create(
        setup: &Setup,
        listener: TcpListener,
        addresses: &[SocketAddr],
    ) -> Result<TcpFabric, OpenError> {
        check(setup, addresses)?;
        let owner =
            Region::create(&setup.directory, &setup.identity_of(setup.me, 0), setup.incarnation)?;
        let words = owner.words();
        match TcpFabric::start(Local::of(setup, owner.life()), words, listener, addresses) {
            Ok(fabric) => Ok(fabric.owning(owner)),
            Err(errno) => {
                // The first error is reported; the next attempt names a file that stays.
                let _stays = owner.remove();
                Err(OpenError::os("prepare to poll the network", errno))
            }
        }
    }

    /// Like [`TcpFabric::create`] with the region that an earlier process of this member left.
    ///
    /// # Errors
    /// [`OpenError`]; the region is unchanged.
    pub fn attach(
        setup: &Setup,
        listener: TcpListener,
        addresses: &[SocketAddr],
    ) -> Result<TcpFabric, OpenError> {
        check(setup, addresses)?;
        let owner = Region::attach(&setup.directory, &setup.identity_of(setup.me, 0))?;
        let words = owner.words();
        TcpFabric::start(Local::of(setup, owner.life()), words, listener, addresses)
            .map(|fabric| fabric.owning(owner))
            .map_err(|errno| OpenError::os("prepare to poll the network", errno))
    }

    /// Stops this member for good: its region is removed, and its sentinel stays silent.
    ///
    /// # Errors
    /// [`OpenError`] if the region's file could not be removed.
    pub fn remove(self) -> Result<(), OpenError> {
        let Some((owner, held)) = self.owned else { return Ok(()) };
        // The sentinel looks for the mark of a removed region when the locks are released.
        owner.remove()?;
        drop(held);
        Ok(())
    }

    fn owning(mut self, owner: Owner) -> TcpFabric {
        let held = Held::hold(&owner, HOLD_FOR);
        self.owned = Some((owner, held));
        self
    }
}

/// Refuses settings with which no connection could work.
pub(super) fn check(setup: &Setup, addresses: &[SocketAddr]) -> Result<(), OpenError> {
    setup.validate()?;
    let (members, given) = (setup.members, addresses.len());
    if given != members {
        let text = format!("{given} peer addresses for {members} members: give one for each");
        return Err(OpenError::Setup(text));
    }
    if setup.secret.is_empty() {
        let text = "an empty cluster secret proves nothing: give every member the same secret";
        return Err(OpenError::Setup(text.to_owned()));
    }
    Ok(())
}
