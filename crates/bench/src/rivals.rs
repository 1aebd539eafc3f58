//! The peers of the core: other crates, built and run from `bench/rivals`, which is not part of the
//! workspace.

use crate::group::Error;
use report::Report;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The directory from which this program was built, if it still exists; otherwise the current
/// directory.
///
/// # Errors
/// Neither is the repository.
pub fn repository() -> Result<PathBuf, Error> {
    let built_from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    [built_from, PathBuf::from(".")]
        .into_iter()
        .find(|path| path.join("bench/rivals/Cargo.toml").exists())
        .ok_or_else(|| {
            let text = "peers that are built from source need the repository: \
                        run this in its root, or leave out --against";
            Error::Peer(text.to_owned())
        })
}

/// Builds and runs the rivals.
///
/// # Errors
/// They cannot be built (the first time needs the crate registry) or run.
pub fn measure() -> Result<Report, Error> {
    let manifest = repository()?.join("bench/rivals/Cargo.toml");
    let run = Command::new("cargo")
        .args(["run", "--release", "--quiet", "--manifest-path"])
        .arg(&manifest)
        .output()
        .map_err(|source| Error::os("run cargo", source))?;
    if !run.status.success() {
        let said = String::from_utf8_lossy(&run.stderr);
        return Err(Error::Peer(format!("cannot run {}: {said}", manifest.display())));
    }
    let text = String::from_utf8_lossy(&run.stdout);
    Report::from_json(&text).map_err(|error| Error::Peer(format!("bench/rivals: {error}")))
}
