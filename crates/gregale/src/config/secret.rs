//! The secret that only the members know.

use super::{Config, Start};
use console::{Failure, Outcome};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The shortest secret: a shorter one could be guessed.
const SECRET_BYTES_MIN: usize = 16;

impl Config {
    /// The cluster's secret.
    pub(crate) fn secret(&self) -> Outcome<Vec<u8>> {
        let path = &self.secret_file;
        let secret = std::fs::read(path)
            .map_err(|error| Failure::os(format_args!("read {}", path.display()), error))?;
        if secret.trim_ascii().len() < SECRET_BYTES_MIN {
            let file = path.display();
            let is_new = self.start == Start::Bootstrap
                && !self.data.as_ref().is_some_and(|data| {
                    // What is not known may be there.
                    storage::directory::is_begun(data).unwrap_or(true)
                });
            let mend = if is_new {
                format!("`(umask 077; head -c 32 /dev/urandom | base64 > {file})` makes one")
            } else {
                // Another secret would make its disk, or memory, invalid.
                "bring back the one that the cluster was begun with, from a copy or from another \
                 member"
                    .to_owned()
            };
            return Err(Failure::new(format_args!(
                "the secret in {file} has less than {SECRET_BYTES_MIN} bytes: {mend}"
            )));
        }
        Ok(secret.trim_ascii().to_vec())
    }
}

/// The reason why the secret in `path` is known to more than the members, if it is.
pub(crate) fn open_secret(path: &Path) -> Option<String> {
    let mode = std::fs::metadata(path).ok()?.permissions().mode() & 0o777;
    (mode & 0o077 != 0).then(|| {
        let file = path.display();
        format!(
            "{file} can be read or written by other users ({mode:03o}), and proves nothing then: \
             chmod 600 {file}"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config_in(base: &Path) -> Config {
        let text = format!(
            "cluster = \"x\"\nmember = 1\nstart = \"bootstrap\"\ndirectory = \"/dev/shm/x\"\n\
             secret_file = \"{0}/secret\"\ndata = \"{0}/data\"\n[[members]]\nid = 1\n\
             client = \"127.0.0.1:7000\"\ncontrol = \"127.0.0.1:7200\"\n",
            base.display()
        );
        toml::from_str(&text).unwrap()
    }

    /// A new secret makes a cluster's disks refuse to open.
    #[test]
    fn a_new_secret_is_advised_only_where_there_is_nothing_yet() {
        let base = tempfile::tempdir().unwrap();
        let mut config = config_in(base.path());
        std::fs::write(&config.secret_file, "short").unwrap();
        let refused = |config: &Config| config.secret().unwrap_err().to_string();
        assert!(refused(&config).contains("head -c 32"), "{}", refused(&config));
        std::fs::create_dir(base.path().join("data")).unwrap();
        std::fs::write(base.path().join("data/identity"), b"").unwrap();
        assert!(refused(&config).contains("bring back"), "{}", refused(&config));
        config.data = None;
        config.start = Start::Join;
        assert!(refused(&config).contains("bring back"), "{}", refused(&config));
    }

    #[test]
    fn a_secret_that_others_can_read_is_named() {
        let base = tempfile::tempdir().unwrap();
        let file = base.path().join("secret");
        std::fs::write(&file, "x").unwrap();
        let said = |mode| {
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            open_secret(&file)
        };
        assert_eq!(said(0o600), None);
        assert_eq!(said(0o400), None);
        assert!(said(0o644).unwrap().contains("(644)"));
        assert!(said(0o640).is_some());
    }
}
