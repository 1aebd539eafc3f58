//! The loop of one process: a thread that turns the machine, and sleeps when there is nothing to
//! do.
//!
//! ```text
//! turn:  calls from the board -> the process -> events on the board (`boarded`)
//! idle:  announce the sleep; look once more; wait for the fabric, a call, or a deadline
//! ```
//! - N1 *No lost wake-up.* Between `prepare_sleep` and the wait everything is looked at once more
//!   (fabric T9), and the wait ends at the earliest deadline. By construction of `run`.

use crate::board::Board;
use crate::boarded::Boarded;
use crate::data;
use crate::error::Error;
use crate::event::{Ended, Member, number};
use crate::founding;
use crate::ground::{Place, Standing};
use crate::layout;
use crate::options::{Data, Options};
use crate::probe::Probes;
use crate::seat::{self, Founds, refused};
use crate::teller::Teller;
use crate::words;
use base::{Instant, SeatSet};
use engine::StableStorage;
use engine::group::Process;
use fabric::{Fabric, HostFabric, Setup};
use proto::planted::Sound;
use proto::vsync::{self, Knock, Start};
use runtime::clock::boot_now;
use runtime::disk::LogDisk;
use runtime::{Interest, Poller, Ready};
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

const KEY_FABRIC: u64 = 0;
const KEY_BELL: u64 = 1;
const KEY_DISK: u64 = 2;
/// The longest sleep.
const SLEEP_MAX: Duration = Duration::from_secs(1);

/// The report that the process is in the group, or why it is not.
pub(crate) type Report = SyncSender<Result<Member, Error>>;

/// Runs the process until it is no longer in the group. All of it happens on this thread: the
/// kernel reports the end of the thread that opened the fabric.
pub(crate) fn run(options: &Options, founds: Founds, board: &Arc<Board>, report: &Report) {
    let served = seat::take(options, founds)
        .and_then(|(setup, fabric)| serve(options, founds, &setup, fabric, board, report));
    if let Err(error) = served {
        // A process that was in the group has reported already; its end says the rest.
        let _heard = report.try_send(Err(error));
    }
}

fn serve(
    options: &Options,
    founds: Founds,
    setup: &Setup,
    fabric: HostFabric,
    board: &Arc<Board>,
    report: &Report,
) -> Result<(), Error> {
    let disk = match data::open(options, founds) {
        Ok(disk) => disk,
        Err(why) => {
            // The seat is given back.
            words::remove(options, setup.me);
            let _closed = fabric.remove();
            return Err(why);
        }
    };
    let mut place = Place::new(fabric, disk);
    let ended = begin(options, founds, setup, &mut place, board)
        .and_then(|mut node| node.run(&mut place, report).map(|ended| (node, ended)));
    let seat = number(setup.me);
    if let Ok((node, _)) = &ended {
        // Before the others know of the end (`vsync::landing`, V22).
        node.boarded.process.copy_held();
    }
    words::remove(options, setup.me);
    let closed = place.fabric.remove().map_err(|source| Error::Open { seat, source });
    // The end is told when the seat is free again.
    let (mut node, ended) = ended?;
    node.boarded.finish(ended);
    closed
}

fn begin(
    options: &Options,
    founds: Founds,
    setup: &Setup,
    place: &mut Place,
    board: &Arc<Board>,
) -> Result<Node, Error> {
    let mut poller = Poller::new().map_err(Error::os("make a poller"))?;
    let watched = poller
        .add(place.fabric.wait_fd(), KEY_FABRIC, Interest::Read)
        .and_then(|()| poller.add(board.bell(), KEY_BELL, Interest::Read))
        .and_then(|()| match &place.disk {
            Some(disk) => poller.add(disk.wait_fd(), KEY_DISK, Interest::Read),
            None => Ok(()),
        });
    watched.map_err(Error::os("watch descriptors"))?;
    let me = Knock { seat: setup.me, incarnation: setup.incarnation, metadata: options.metadata };
    let start = match founds {
        Founds::Yes => {
            let living = seat::living(options, me.seat);
            founding::ask(place, &mut poller, me.seat, &living)?;
            Start::Found(vec![me])
        }
        Founds::No => Start::Join,
    };
    let config = vsync::Config {
        me,
        start,
        shape: options.shape(),
        timing: options.timing,
        n_adequate: options.adequate,
        keeps_state: options.keeps_state,
        lease: options.lease,
        group: data::new_name(),
        keep_bytes: options.data.as_ref().map_or(Data::KEEP_BYTES, |data| data.keep_bytes),
        layout: layout::described(&options.layout),
    };
    let process = match &mut place.disk {
        None => Process::new(config, boot_now()),
        Some(disk) => Process::on(config, disk, Sound, boot_now()).map_err(|_| {
            let why = disk.failure().unwrap_or("it has the records of something else").to_owned();
            data::refused(options.data.as_ref().map_or("".as_ref(), |data| &data.directory), why)
        })?,
    };
    let app = Teller::new(me, options);
    Ok(Node {
        boarded: Boarded::new(process, app, Arc::clone(board), options.patience),
        options: options.clone(),
        poller,
        ready: Vec::new(),
        probes: Probes::new(&options.transport),
        is_inside: false,
    })
}

/// The loop; see the module's text.
struct Node {
    boarded: Boarded,
    options: Options,
    poller: Poller,
    ready: Vec<Ready>,
    probes: Probes,
    /// Whether the process was in a view.
    is_inside: bool,
}

impl Node {
    fn run(&mut self, place: &mut Place, report: &Report) -> Result<Ended, Error> {
        let join_by = boot_now().plus(self.options.patience);
        loop {
            let (_, worked) = self.advance(place);
            if let Some(ended) = self.look_around(place, join_by, report)? {
                return Ok(ended);
            }
            if worked {
                continue;
            }
            // N1
            place.fabric.prepare_sleep();
            let (due, worked) = self.advance(place);
            let wait_for_view = (!self.is_inside).then_some(join_by);
            let next = wait_for_view.map_or(due, |by| due.min(by));
            let look = place.disk.as_ref().and_then(LogDisk::look_within).unwrap_or(SLEEP_MAX);
            let idle = next.since(boot_now()).min(look);
            let is_busy = worked || self.boarded.app.ended.is_some();
            let span = if is_busy { Duration::ZERO } else { idle };
            let waited = self.poller.wait(Some(span), &mut self.ready);
            place.fabric.awake();
            if let Err(error) = waited {
                return Ok(Ended::Os(error.to_string()));
            }
            if self.ready.iter().any(|ready| ready.key == KEY_BELL) {
                self.boarded.board.hear();
            }
        }
    }

    /// Whether the process has ended, or has to; and whether it may still be let in.
    fn look_around(
        &mut self,
        place: &Place,
        join_by: Instant,
        report: &Report,
    ) -> Result<Option<Ended>, Error> {
        let app = &mut self.boarded.app;
        if !self.is_inside && app.view.is_some() {
            self.is_inside = true;
            let _hears = report.try_send(Ok(Member::of(&app.me)));
        }
        match app.ended.take() {
            Some(ended) if self.is_inside => return Ok(Some(ended)),
            Some(ended) => return Err(ended.into()),
            None => {}
        }
        if !self.is_inside {
            self.check_join(place, join_by)?;
        }
        if let Some(why) = place.disk.as_ref().and_then(LogDisk::failure) {
            return Ok(Some(Ended::Os(why.to_owned())));
        }
        Ok(self.boarded.overdue(boot_now()))
    }

    /// Whether this process may still be let in.
    fn check_join(&self, place: &Place, join_by: Instant) -> Result<(), Error> {
        if let Some((seat, why)) = seat::never_met(&place.fabric) {
            return Err(refused(&self.options, seat, why));
        }
        if boot_now() < join_by {
            return Ok(());
        }
        let (name, patience) = (self.options.name.clone(), self.options.patience);
        Err(Error::NoAnswer { name, patience, said: seat::said(&place.fabric) })
    }

    /// Everything that can be done without waiting. Returns when it has to be done again, and
    /// whether something happened.
    fn advance(&mut self, place: &mut Place) -> (Instant, bool) {
        let result = self.boarded.advance(boot_now(), place);
        let broken = std::mem::replace(&mut place.broken, SeatSet::EMPTY);
        let Boarded { app, board, .. } = &self.boarded;
        self.probes.look_at(broken, board);
        place.standing = match (&app.view, &app.ended) {
            (Some(view), None) => Standing::Inside(view.number),
            // (A founder that has decided says so before its view is told.)
            (None, None) => place.standing,
            (_, Some(_)) => Standing::Outside,
        };
        result
    }
}
