//! Running other programs, and saying which.

use crate::root;
use anyhow::{Context, Result, bail};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Pauses between the tries of what needs the network.
const PAUSES: [Duration; 2] = [Duration::from_secs(5), Duration::from_secs(20)];

/// `cargo` as the caller's cargo is, in the root of the workspace.
pub(crate) fn cargo(args: &[&str]) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(cargo);
    command.args(args).current_dir(root()).stdin(Stdio::null());
    command
}

/// `cargo` of whichever toolchain the arguments name: the proxy of rustup, not one toolchain's own.
pub(crate) fn cargo_proxy(args: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command.args(args).current_dir(root()).stdin(Stdio::null());
    command.env_remove("CARGO").env_remove("RUSTC").env_remove("RUSTUP_TOOLCHAIN");
    command
}

/// The program of `gregale bench`, as it is deployed.
pub(crate) fn workbench(args: &[&str]) -> Command {
    let package = "gregale-workbench";
    let profile = ["--profile", "dist"];
    let mut whole = vec!["run", "--quiet", "--locked", "--package", package];
    whole.extend(profile);
    whole.push("--");
    whole.extend(args);
    cargo(&whole)
}

/// The program of `gregale sim`, as the tests have built it: with every assertion, optimised in
/// full (Cargo.toml), and without a second build, which took a third of all that CI does.
///
/// # Errors
/// It cannot be built.
pub(crate) fn simulator(args: &[&str]) -> Result<Command> {
    static BUILT: Mutex<Option<PathBuf>> = Mutex::new(None);
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    let program = match &mut *built {
        Some(program) => program,
        nothing => nothing.insert(build_simulator()?),
    };
    let mut command = Command::new(program);
    command.args(args).current_dir(root()).stdin(Stdio::null());
    Ok(command)
}

/// A test of the workbench runs it, and so has it built. (`--package` in the place of `--workspace`
/// would choose other features of what it depends on, and be a build of its own.)
fn build_simulator() -> Result<PathBuf> {
    let args = ["test", "--locked", "--workspace", "--test", "servers", "--no-run", "--quiet"];
    let told = output(cargo(&args).arg("--message-format=json-render-diagnostics"))?;
    let built = told.split("\"executable\":\"").skip(1).filter_map(|rest| rest.split('"').next());
    let mut programs = built.filter(|path| path.ends_with("/gregale-workbench"));
    programs.next().map(PathBuf::from).context("cargo built no gregale-workbench")
}

/// Whether this machine judges a change: then nothing that it can run may be left out.
pub(crate) fn is_ci() -> bool {
    std::env::var("CI").is_ok_and(|is_ci| is_ci == "true")
}

/// Runs `command` with its output going where ours goes.
pub(crate) fn succeed(command: &mut Command) -> Result<()> {
    let shown = show(command);
    let status = command.status().with_context(|| format!("cannot run `{shown}`"))?;
    if !status.success() {
        bail!("`{shown}` failed ({status})");
    }
    Ok(())
}

/// Repeats what needs the network: three times, with growing pauses.
pub(crate) fn retry(command: &mut Command) -> Result<()> {
    for pause in PAUSES {
        match succeed(command) {
            Ok(()) => return Ok(()),
            Err(error) => println!("{error:#}; once more in {} s", pause.as_secs()),
        }
        std::thread::sleep(pause);
    }
    succeed(command)
}

/// The output of `command`, if it succeeds.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let shown = show(command);
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot run `{shown}`"))?;
    if !output.status.success() {
        bail!("`{shown}` failed ({})", output.status);
    }
    String::from_utf8(output.stdout).with_context(|| format!("`{shown}` printed no text"))
}

/// Whether `command` can be run at all and succeeds; prints nothing.
pub(crate) fn works(command: &mut Command) -> bool {
    let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

pub(crate) fn show(command: &Command) -> String {
    let program = command.get_program().to_string_lossy();
    let name = program.rsplit('/').next().unwrap_or(&program).to_owned();
    let args = command.get_args().map(|arg| arg.to_string_lossy().into_owned());
    std::iter::once(name).chain(args).collect::<Vec<_>>().join(" ")
}
