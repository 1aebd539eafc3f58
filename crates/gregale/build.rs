//! Compiles the library that is preloaded into replicated programs, so that `gregale` contains it:
//! one file to install, and nothing that could be of another version.
//!
//! The library has no dependency but `waits`, so two calls of the compiler make it. (Cargo has no
//! stable way to build a shared library for another package's use.)

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let out = PathBuf::from(variable("OUT_DIR"));
    let crates = Path::new(&variable("CARGO_MANIFEST_DIR")).join("..");
    for part in ["waits", "preload"] {
        println!("cargo::rerun-if-changed=../{part}/src");
    }
    let waits = out.join("libwaits.rlib");
    compile(&crates.join("waits/src/lib.rs"), &["--crate-type=rlib", "--crate-name=waits"], &waits);
    let with = format!("waits={}", waits.display());
    let kind = ["--crate-type=cdylib", "--crate-name=gregale_preload", "--extern", &with];
    compile(&crates.join("preload/src/lib.rs"), &kind, &out.join("preload.so"));
}

fn compile(source: &Path, kind: &[&str], to: &Path) {
    let mut rustc = Command::new(variable("RUSTC"));
    rustc
        .args(["--edition=2024", "-Copt-level=2", "-Cstrip=symbols", "--cap-lints=allow"])
        .args(["--target", &variable("TARGET")])
        .args(kind)
        .arg("-o")
        .args([to, source]);
    if let Some(linker) = std::env::var_os("RUSTC_LINKER") {
        rustc.arg("-C").arg(format!("linker={}", linker.display()));
    }
    let status = rustc.status();
    let is_made = status.as_ref().is_ok_and(std::process::ExitStatus::success);
    assert!(is_made, "compile {} with {rustc:?}: {status:?}", source.display());
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|error| panic!("cargo sets {name}: {error}"))
}
