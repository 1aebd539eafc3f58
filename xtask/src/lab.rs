//! `cargo xtask lab`: what takes a kernel of its own, in a guest that is emulated (tools/lab).
//!
//! The guest has Debian's kernel, and the host's root, read-only. It is made once, below `target`:
//! some 600 MB. CI does not run this.

use crate::programs::is_in_path;
use crate::root;
use crate::run::{cargo, succeed};
use anyhow::{Result, bail};
use std::process::Command;

/// The programs that this takes, and Debian's packages with them.
const PROGRAMS: [(&str, &str); 6] = [
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("busybox", "busybox-static"),
    ("cpio", "cpio"),
    ("criu", "criu"),
    ("python3", "python3"),
    ("apt-get", "apt"),
];

/// The time in which a guest has to have done its work. It is some ten times slower than its host.
const ENDS_WITHIN_S: u32 = 3600;

/// Copies of Redis that CRIU dumps and restores, with so many keys.
pub(crate) fn criu(keys: u32) -> Result<()> {
    let missing: Vec<String> = PROGRAMS
        .iter()
        .filter(|(name, _)| !is_in_path(name))
        .map(|(name, package)| format!("{name} (apt-get install {package})"))
        .collect();
    if !missing.is_empty() {
        println!("skipped: lab criu: there is no {}", missing.join(", no "));
        return match std::env::var_os("CI") {
            Some(_) => bail!("the lab lacks programs"),
            None => Ok(()),
        };
    }
    let (scripts, lab) = (root().join("tools/lab"), root().join("target/lab"));
    succeed(Command::new(scripts.join("prepare.sh")).arg(&lab))?;
    succeed(&mut cargo(&["build", "--locked", "--quiet", "--package", "gregale"]))?;
    let mut run = Command::new(scripts.join("run.py"));
    run.arg(&lab).arg(ENDS_WITHIN_S.to_string()).arg(root().join("target/debug/gregale"));
    run.arg("python3").arg(scripts.join("criu.py")).arg("/job/gregale").arg(keys.to_string());
    succeed(&mut run)
}
