//! Reports: what a member says of its own copy, as entries, until that is executed.

use crate::bugs::Bug;
use crate::checkpoint::Checkpoints;
use crate::entry::Entry;
use crate::feeder::Saved;
use crate::hash::Taken;
use crate::program::Program;
use crate::state::State;
use crate::transcript::Transcript;
use crate::verdict::{Judge, STRICT_POINTS_MAX};
use base::{Incarnation, Rank};
use engine::{Asker, Desk};
use proto::planted::Planting;
use std::collections::BTreeMap;

/// The most pieces on their way.
const PIECES_MAX: usize = 16;

/// The name of a hash among the requests that are no client's (`clients`).
pub(crate) const HASH: u64 = 2;
/// And that of a piece of a checkpoint.
pub(crate) const PIECE: u64 = 3;

/// A hash that its entry was not executed of.
#[derive(Clone, Copy, Debug)]
struct Hash {
    value: u64,
    is_said: bool,
}

/// A checkpoint that is said.
#[derive(Debug)]
struct Shipment {
    at: u64,
    header: Vec<u8>,
    /// The bytes of all of it; 0 to give up.
    len: u64,
    /// The bytes that were said.
    n_said: u64,
    n_on_their_way: usize,
    /// The fate of a piece is unknown.
    is_unknown: bool,
}

/// The reports of the module's text.
#[derive(Debug)]
pub(crate) struct Reports {
    me: Rank,
    run: Incarnation,
    /// By their points.
    hashes: BTreeMap<u64, Hash>,
    shipment: Option<Shipment>,
    /// The reason why the last checkpoint was not made here.
    trouble: Option<String>,
    /// The bytes of one piece, at most.
    piece_bytes_max: usize,
    piece: Vec<u8>,
    scratch: Vec<u8>,
}

impl Reports {
    /// None yet.
    pub(crate) fn new(me: Rank, run: Incarnation, piece_bytes_max: usize) -> Reports {
        Reports {
            me,
            run,
            hashes: BTreeMap::new(),
            shipment: None,
            trouble: None,
            piece_bytes_max,
            piece: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// The reason why the last checkpoint was not made here, if there is one.
    pub(crate) fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// The copy was saved, or could not be.
    pub(crate) fn ship(&mut self, saved: Saved) {
        let (header, len) = match saved.made {
            Ok((header, len)) => {
                self.trouble = None;
                let len = header.len() as u64 + len;
                (header, len)
            }
            Err(why) => {
                self.trouble = Some(why);
                (Vec::new(), 0)
            }
        };
        self.shipment = Some(Shipment {
            at: saved.at,
            header,
            len,
            n_said: 0,
            n_on_their_way: 0,
            is_unknown: false,
        });
    }

    /// The copy's hash was taken. One more than the judge waits for is not needed.
    pub(crate) fn push(&mut self, taken: Taken) {
        if self.hashes.len() == STRICT_POINTS_MAX {
            self.hashes.pop_first();
        }
        self.hashes.insert(taken.at, Hash { value: taken.value, is_said: false });
    }

    /// Whether a request of this name is a report.
    pub(crate) fn is_own(asker: Asker) -> bool {
        asker.connection == 0 && [HASH, PIECE].contains(&asker.request)
    }

    /// A report has its answer. If its fate is unknown, it is said again.
    pub(crate) fn answer(&mut self, asker: Asker, is_decided: bool) {
        if asker.request == PIECE {
            // It may be one of an earlier checkpoint.
            if let Some(shipment) = &mut self.shipment {
                shipment.n_on_their_way = shipment.n_on_their_way.saturating_sub(1);
                shipment.is_unknown |= !is_decided;
            }
        } else if !is_decided {
            self.hashes.values_mut().for_each(|hash| hash.is_said = false);
        }
    }

    /// Says what is due. Returns whether anything was.
    pub(crate) fn resume<H: Transcript, B: Planting<Bug>>(
        &mut self,
        state: &State<H, B>,
        program: &mut impl Program,
        desk: &mut Desk,
    ) -> bool {
        let says_hashes = self.say_hashes(state.judge(), desk);
        self.say_pieces(state.checkpoints(), program, desk) | says_hashes
    }

    fn say_hashes<B: Planting<Bug>>(&mut self, judge: &Judge<B>, desk: &mut Desk) -> bool {
        let Reports { me, run, hashes, scratch, .. } = self;
        // One of an earlier process may have been executed, or the point is over.
        hashes.retain(|at, _| judge.is_wanted(*me, *at));
        let mut worked = false;
        for (at, hash) in hashes.iter_mut().filter(|(_, hash)| !hash.is_said) {
            if !desk.has_room() {
                break;
            }
            scratch.clear();
            Entry::Hash { owner: *me, run: *run, at: *at, value: hash.value }.write(scratch);
            desk.write(Asker { connection: 0, request: HASH }, scratch);
            (hash.is_said, worked) = (true, true);
        }
        worked
    }

    fn say_pieces<B: Planting<Bug>>(
        &mut self,
        checkpoints: &Checkpoints<B>,
        program: &mut impl Program,
        desk: &mut Desk,
    ) -> bool {
        let maker = (self.me, self.run);
        let making = checkpoints.making().filter(|making| making.maker == maker);
        let Some(shipment) = &mut self.shipment else { return false };
        let Some(making) = making.filter(|making| making.at == shipment.at) else {
            self.shipment = None; // it was executed, or given up
            program.forget_saved();
            return false;
        };
        if std::mem::take(&mut shipment.is_unknown) {
            shipment.n_said = making.next;
        }
        let mut worked = false;
        while desk.has_room()
            && shipment.n_on_their_way < PIECES_MAX
            && (shipment.n_said < shipment.len || shipment.len == 0 && shipment.n_on_their_way == 0)
        {
            self.piece.resize(self.piece_bytes_max, 0);
            let n = match read(shipment, program, &mut self.piece) {
                Ok(n) => n,
                Err(why) => {
                    (shipment.len, shipment.n_said) = (0, 0);
                    self.trouble = Some(why);
                    0
                }
            };
            let Shipment { at, len, n_said: offset, .. } = *shipment;
            let bytes = &self.piece[..n];
            self.scratch.clear();
            Entry::Piece { owner: self.me, run: self.run, at, offset, len, bytes }
                .write(&mut self.scratch);
            desk.write(Asker { connection: 0, request: PIECE }, &self.scratch);
            shipment.n_said += n as u64;
            shipment.n_on_their_way += 1;
            worked = true;
        }
        worked
    }
}

/// Reads the next piece.
fn read(
    shipment: &Shipment,
    program: &mut impl Program,
    piece: &mut [u8],
) -> Result<usize, String> {
    let Shipment { header, len, n_said, .. } = shipment;
    let n = piece.len().min((len - n_said) as usize);
    let header = header.get(*n_said as usize..).unwrap_or_default();
    let n_header = header.len().min(n);
    piece[..n_header].copy_from_slice(&header[..n_header]);
    let mut at = n_header;
    while at < n {
        let from = n_said + at as u64 - shipment.header.len() as u64;
        match program.read_saved(from, &mut piece[at..n])? {
            0 => return Err("the checkpoint is shorter than it was".to_owned()),
            more => at += more,
        }
    }
    Ok(n)
}
