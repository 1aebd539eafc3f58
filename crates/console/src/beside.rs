//! Programs that are installed together.

use crate::{Failure, Outcome};
use std::path::PathBuf;

/// Where `program` lies: beside this one. A package of the workspace has the same name.
///
/// # Errors
/// It is not there; `who` needs it.
pub fn beside(program: &str, who: &str) -> Outcome<PathBuf> {
    let own = std::env::current_exe().map_err(|error| Failure::os("find this program", error))?;
    let path = own.with_file_name(program);
    if !path.exists() {
        return Err(Failure::new(format_args!(
            "{who} needs {}, which is not there: `cargo build --release --package {program}` \
             builds it beside a release build of this program, and `--profile dist` beside one \
             with that profile",
            path.display()
        )));
    }
    Ok(path)
}
