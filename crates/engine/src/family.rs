//! What differs between the families of protocols, seen from the turns of a member.
//!
//! An [`Engine`](crate::Engine) has one [`Family`] by its type: the engine begins turns, repeats
//! what can be repeated, sweeps and publishes; the family holds the parts and does the work.

use crate::desk::Desk;
use crate::plant::Plant;
use crate::service::Door;
use crate::stats::Stats;
use base::{Inbox, Instant};

/// What an engine is made of, each part for its owner alone.
#[derive(Debug)]
pub struct Parts<'a, P, A, D> {
    /// Fabric, clocks, disk.
    pub plant: &'a mut P,
    /// The replicated state.
    pub app: &'a mut A,
    /// The clients.
    pub door: &'a mut D,
    /// Their requests.
    pub desk: &'a mut Desk,
    /// What is counted.
    pub stats: &'a mut Stats,
}

/// One family of protocols. See the module's text.
pub trait Family {
    /// What it stands on.
    type Plant: Plant;
    /// What is replicated.
    type App;
    /// Where clients come in.
    type Door: Door<Self::App>;

    /// Its parts.
    fn parts(&mut self) -> Parts<'_, Self::Plant, Self::App, Self::Door>;

    /// What it stands on.
    fn plant(&self) -> &Self::Plant;

    /// The replicated state.
    fn app(&self) -> &Self::App;

    /// The requests without an answer.
    fn desk(&self) -> &Desk;

    /// What is counted.
    fn stats(&self) -> &Stats;

    /// Ends it.
    fn into_plant(self) -> Self::Plant;

    /// Why this member must stop.
    fn failure(&self) -> Option<&str>;

    /// Whether no client's request is open here.
    fn is_idle(&self) -> bool;

    /// Hands over what this member does for others.
    fn resign(&mut self);

    /// Whether it has.
    fn has_handed_over(&self) -> bool;

    /// Everything that can be done without waiting, once. True if something happened.
    fn advance(&mut self, inbox: &mut Inbox) -> bool;

    /// What is done once a turn, however often the rest is repeated. True if something was.
    fn work_once(&mut self) -> bool;

    /// Puts replies and frames on their way.
    fn send(&mut self);

    /// Ends what has waited for too long.
    fn sweep(&mut self);

    /// When something has to be done though nothing happens.
    fn deadline(&self, now: Instant) -> Instant;

    /// Lays the figures out for questions from outside.
    fn publish(&mut self);
}
