//! The founding of a member in memory, for which its file may ask in each life.
//!
//! - F1 a member is founded once. Its memory, if that is there, is continued. If it is not, as
//!   after a start of the host, a note beside the secret tells that there was one: a member that is
//!   founded again would have forgotten what it acknowledged.
//! - F2 only the file's word is judged: a supervisor knows what was founded. A durable member's
//!   disk tells it (`data`).

use crate::config::{Config, Protocol, Start, above};
use base::NodeId;
use console::{Failure, Outcome};
use region::Region;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// The note that this life makes of the founding.
#[derive(Debug)]
pub(super) struct Founding {
    note: PathBuf,
    is_new: bool,
}

impl Founding {
    /// Judges the word of `config`, and changes it to `reattach` for a member that was founded
    /// before. Returns the note that is to be made, if it is founded now.
    pub(super) fn judge(config: &mut Config, is_supervised: bool) -> Outcome<Option<Founding>> {
        let is_in_memory = config.data.is_none() && config.partitions.is_none();
        if is_supervised || !is_in_memory || config.start != Start::Bootstrap {
            return Ok(None);
        }
        let note = note_of(config);
        let was_founded = note.exists();
        if Region::is_there(&config.directory, NodeId(config.member)) {
            config.start = Start::Reattach;
        } else if was_founded {
            return Err(lost(config, &note));
        }
        Ok(Some(Founding { note, is_new: !was_founded }))
    }

    /// Makes the note, before the memory holds a promise. Where that cannot be done the member
    /// serves all the same.
    pub(super) fn note(&self) {
        if self.is_new
            && let Err(error) = write(&self.note)
        {
            runtime::complain(format_args!(
                "cannot note in {} that this member was founded: {error}; say start = \"reattach\" \
                 in its file now, or it may be founded again after a start of this host",
                self.note.display()
            ));
        }
    }

    /// Removes the note: the member was not founded after all.
    pub(super) fn forget(&self) {
        if self.is_new {
            // The next life names it.
            let _ = std::fs::remove_file(&self.note);
        }
    }
}

/// The note is beside the secret, since the directory of the memory ends with it.
fn note_of(config: &Config) -> PathBuf {
    let name = format!("{}.member-{}.founded", config.cluster, config.member);
    above(&config.secret_file).join(name)
}

fn write(note: &Path) -> io::Result<()> {
    File::create(note)?.sync_all()?;
    File::open(above(note))?.sync_all()
}

fn lost(config: &Config, note: &Path) -> Failure {
    let (id, note) = (config.member, note.display());
    let word = match config.protocol {
        Protocol::Keyed(_) => "reattach",
        Protocol::Log(_) | Protocol::Primcast => "join",
    };
    Failure::new(format_args!(
        "the memory of member {id} is lost: it was founded before ({note} says so), and founded \
         again it would have forgotten what it acknowledged; say start = {word:?} in its file, \
         while the others serve, or, if the memory of all is lost and the cluster is to begin \
         empty, remove {note}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(base: &Path) -> Config {
        let text = format!(
            "cluster = \"x\"\nmember = 1\nstart = \"bootstrap\"\ndirectory = \"{0}/memory\"\n\
             secret_file = \"{0}/secret\"\n[[members]]\nid = 1\nclient = \"127.0.0.1:7000\"\n\
             control = \"127.0.0.1:7200\"\n",
            base.display()
        );
        toml::from_str(&text).unwrap()
    }

    /// After a start of the host an acknowledged value was gone, without a sign.
    #[test]
    fn f1_a_member_whose_memory_is_lost_is_not_founded_again_by_its_file() {
        let base = tempfile::tempdir().unwrap();
        let mut file = config(base.path());
        let founding = Founding::judge(&mut file, false).unwrap().expect("it is founded");
        founding.note();
        assert_eq!(file.start, Start::Bootstrap);
        let refused = Founding::judge(&mut file, false).unwrap_err().to_string();
        assert!(refused.contains("start = \"join\""), "{refused}");
        assert!(refused.contains("x.member-1.founded"), "{refused}");
        file.protocol = serde_json::from_str("\"abd\"").unwrap();
        let refused = Founding::judge(&mut file, false).unwrap_err().to_string();
        assert!(refused.contains("start = \"reattach\""), "{refused}");
        assert!(Founding::judge(&mut file, true).unwrap().is_none(), "a supervisor knows (F2)");
        let other = Founding::judge(&mut Config { member: 2, ..config(base.path()) }, false);
        assert!(other.unwrap().is_some(), "another member's note");
        founding.forget();
        assert!(Founding::judge(&mut file, false).unwrap().is_some(), "it came to nothing");
    }

    #[test]
    fn f1_memory_that_is_there_is_continued() {
        let base = tempfile::tempdir().unwrap();
        let mut file = config(base.path());
        std::fs::create_dir(&file.directory).unwrap();
        std::fs::write(file.directory.join("node-1.region"), "memory").unwrap();
        let founding = Founding::judge(&mut file, false).unwrap().expect("its note is missing");
        assert_eq!(file.start, Start::Reattach);
        founding.note();
        file.start = Start::Bootstrap;
        let again = Founding::judge(&mut file, false).unwrap().expect("its note is there");
        assert_eq!(file.start, Start::Reattach);
        again.forget();
        assert!(founding.note.exists(), "an earlier life's");
    }
}
