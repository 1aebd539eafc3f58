//! `gregale check`: judges a recorded history.

use crate::cli::CheckArgs;
use crate::failure::{Failure, Outcome};
use ::check::{Limits, Verdict, judge};
use std::fs::File;
use std::io::{BufReader, Read, stdin};
use std::process::ExitCode;

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
        // Neither yes nor no: not an answer that a script may take for one.
        Verdict::GaveUp(_) => ExitCode::from(2),
    })
}
