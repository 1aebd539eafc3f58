//! The log that ships, on a simulated disk: what a crash leaves is decided by its recovery.
//!
//! - I1 A process that dies leaves its writer anywhere in what it was handed: batches that were
//!   synced and not reported, and perhaps one whose sync failed, which looks written and is not.
//! - I2 A power cut comes in the middle of a batch: any of its sectors, in any order (the media's
//!   I1).

use base::{Rng, Slot};
use proto::disk::{Entry, EntryHead};
use storage::Media;
use storage::log::{Opened, Options};
use storage::media::{Simulated, SkipsDirectorySync, SkipsSync};

/// What a node's disk is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    /// A stream of records of which a crash leaves a prefix.
    Model,
    /// The log that ships.
    Log,
    /// A planted bug: names of files are never made durable.
    LogWithoutDirectorySync,
    /// A planted bug: nothing is.
    LogWithoutSync,
}

impl Store {
    pub(crate) fn make(self) -> Option<Box<dyn LogStore>> {
        let disk = Simulated::new();
        match self {
            Store::Model => None,
            Store::Log => Some(Box::new(Stored::new(disk.clone(), disk))),
            Store::LogWithoutDirectorySync => {
                Some(Box::new(Stored::new(SkipsDirectorySync(disk.clone()), disk)))
            }
            Store::LogWithoutSync => Some(Box::new(Stored::new(SkipsSync(disk.clone()), disk))),
        }
    }
}

/// A log over some media.
pub(crate) trait LogStore {
    fn append(&mut self, entry: Entry<'_>);
    fn cut(&mut self, end: Slot);
    fn begin_at(&mut self, slot: Slot);
    fn free_below(&mut self, slot: Slot);
    fn put_meta(&mut self, meta: &[u8]);
    fn meta(&self) -> &[u8];
    fn ask_sync(&mut self);
    fn read(&mut self, slot: Slot, into: &mut Vec<u8>) -> Option<EntryHead>;
    fn head(&self, slot: Slot) -> Option<EntryHead>;
    fn start(&self) -> Slot;
    fn end(&self) -> Slot;
    /// Makes durable what was asked for.
    fn work(&mut self);
    /// The process is gone; what that means is decided when the next one starts, or by a power cut.
    fn die(&mut self);
    /// The power fails.
    fn lose_power(&mut self, rng: &mut Rng);
    /// A process starts on what is left. The error names damage that nobody did.
    fn revive(&mut self, rng: &mut Rng) -> Result<(), String>;
}

/// Which log it is.
const LOG: u64 = 0x73_696d;

fn options() -> Options {
    Options {
        segment_bytes: Options::SEGMENT_MIN,
        cache_bytes: 4 << 10,
        unsynced_bytes: 1 << 20,
        ..Options::default()
    }
}

struct Stored<M: Media> {
    media: M,
    disk: Simulated,
    opened: Option<Opened<M>>,
    is_dead: bool,
}

/// Operations within which a power cut falls: a batch takes two, a new segment some twenty.
const OPERATIONS: u64 = 12;

impl<M: Media> Stored<M> {
    fn new(media: M, disk: Simulated) -> Stored<M> {
        let opened = storage::log::open(&media, &options(), LOG).expect("an empty disk is sound");
        Stored { media, disk, opened: Some(opened), is_dead: false }
    }

    fn opened(&self) -> &Opened<M> {
        self.opened.as_ref().expect("only the living look at their log")
    }

    fn opened_mut(&mut self) -> &mut Opened<M> {
        self.opened.as_mut().expect("only the living look at their log")
    }

    /// I1.
    fn end_of_process(&mut self, rng: &mut Rng) {
        if let Some(Opened { mut log, mut writer, .. }) = self.opened.take() {
            let fails_after = rng.chance(1, 2).then(|| rng.below(3));
            self.disk.set_faults(|faults| faults.fail_sync_after = fails_after);
            let mut n_left = rng.below(4);
            while let Some(batch) = log.take().filter(|_| n_left > 0) {
                n_left -= 1;
                if writer.write(&batch).is_err() {
                    break;
                }
            }
            self.disk.set_faults(|faults| faults.fail_sync_after = None);
        }
        self.disk.process_crash();
    }
}

fn head_of(head: storage::EntryHead) -> EntryHead {
    let storage::EntryHead { slot, ballot, view } = head;
    EntryHead { slot, ballot, view }
}

impl<M: Media> LogStore for Stored<M> {
    fn append(&mut self, entry: Entry<'_>) {
        let EntryHead { slot, ballot, view } = entry.head;
        let appended = self.opened_mut().log.append(slot, ballot, view, entry.payload);
        appended.expect("a window is far below what may wait for the disk");
    }

    fn cut(&mut self, end: Slot) {
        self.opened_mut().log.cut(end);
    }

    fn begin_at(&mut self, slot: Slot) {
        self.opened_mut().log.begin_at(slot);
    }

    fn free_below(&mut self, slot: Slot) {
        self.opened_mut().log.free_below(slot);
    }

    fn put_meta(&mut self, meta: &[u8]) {
        self.opened_mut().log.put_meta(meta);
    }

    fn meta(&self) -> &[u8] {
        self.opened().log.meta()
    }

    fn ask_sync(&mut self) {
        self.opened_mut().log.sync();
    }

    fn read(&mut self, slot: Slot, into: &mut Vec<u8>) -> Option<EntryHead> {
        self.opened_mut().log.read(slot, into).expect("nobody has damaged it").map(head_of)
    }

    fn head(&self, slot: Slot) -> Option<EntryHead> {
        self.opened().log.head(slot).map(head_of)
    }

    fn start(&self) -> Slot {
        self.opened().log.start()
    }

    fn end(&self) -> Slot {
        self.opened().log.end()
    }

    fn work(&mut self) {
        let Opened { log, writer, .. } = self.opened_mut();
        while let Some(batch) = log.take() {
            writer.write(&batch).expect("this disk has room and works");
            log.done(batch.end());
        }
        log.flushed();
        if let Some(oldest) = log.take_release() {
            writer.release(oldest).expect("this disk works");
        }
        if writer.wants_preparation() {
            writer.prepare().expect("this disk has room and works");
        }
    }

    fn die(&mut self) {
        self.is_dead = true;
    }

    fn lose_power(&mut self, rng: &mut Rng) {
        if let Some(Opened { mut log, mut writer, .. }) = self.opened.take() {
            // I2.
            let after = rng.below(OPERATIONS);
            self.disk.set_faults(|faults| faults.cut_after = Some(after));
            while let Some(batch) = log.take() {
                if writer.write(&batch).is_err() {
                    break;
                }
            }
        }
        self.disk.power_cut(rng);
    }

    fn revive(&mut self, rng: &mut Rng) -> Result<(), String> {
        if std::mem::take(&mut self.is_dead) {
            self.end_of_process(rng);
        }
        if self.opened.is_none() {
            let opened = storage::log::open(&self.media, &options(), LOG);
            self.opened = Some(opened.map_err(|error| error.to_string())?);
        }
        Ok(())
    }
}
