//! `gregale check`: judges a recorded history.

use ::check::{Limits, Verdict, judge};
use clap::Args;
use console::{Failure, Outcome};
use std::fs::File;
use std::io::{BufReader, Read, stdin};
use std::path::PathBuf;
use std::process::ExitCode;

/// `gregale check`
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  gregale check history.jsonl\n\n\
    Exit code 0: linearizable; 1: not, and the first answer that nothing explains; 2: not known\n\
    within the limits, or not a history.")]
pub(crate) struct CheckArgs {
    /// The history, one JSON object per line; - for standard input.
    pub(crate) file: PathBuf,
}

pub(crate) fn run(args: &CheckArgs) -> Outcome {
    let name = args.file.display();
    let input: Box<dyn Read> = if args.file.as_os_str() == "-" {
        Box::new(stdin())
    } else {
        let file = File::open(&args.file);
        Box::new(file.map_err(|error| Failure::os(format_args!("read {name}"), error))?)
    };
    let history = ::check::file::read(BufReader::new(input))
        .map_err(|error| Failure::new(format_args!("{name} is not a history: {error}")))?;
    let n_ops = history.ops.len();
    let verdict = judge(&history, Limits::default())
        .map_err(|error| Failure::new(format_args!("cannot judge {name}: {error}")))?;
    outln!("{n_ops} operations: {verdict}");
    Ok(match verdict {
        Verdict::Linearizable(_) => ExitCode::SUCCESS,
        Verdict::Violation(_) => ExitCode::FAILURE,
        // Neither yes nor no: no exit code that a script may take for an answer.
        Verdict::GaveUp(_) => ExitCode::from(2),
    })
}
