//! The arguments of a request that are keys.

use super::CommandSpec;

/// The reason why a request has no keys to name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum KeysError {
    /// The command takes none.
    #[error("ERR The command has no key arguments")]
    None,
    /// The number of arguments does not fit the command.
    #[error("ERR Invalid number of arguments specified for command")]
    Arity,
}

/// The indices of the keys among `args`, whose first is the command's name.
///
/// # Errors
/// The command has no keys, or the number of arguments does not fit.
pub fn keys_of(
    spec: &CommandSpec,
    args: &[&[u8]],
) -> Result<impl Iterator<Item = usize> + use<>, KeysError> {
    let is_counted = spec.key_specs.iter().any(|group| group.is_counted);
    if spec.keys.first == 0 && !is_counted {
        return Err(KeysError::None);
    }
    if !spec.accepts(args.len()) {
        return Err(KeysError::Arity);
    }
    if is_counted {
        let at = spec.key_specs[0].begin as usize;
        let n = crate::exec::parse_integer(args[at]).and_then(|n| usize::try_from(n).ok());
        let n = n.filter(|n| *n < args.len() - at).ok_or(KeysError::Arity)?;
        // An empty range has a step, too.
        return Ok((at + 1..=at + n).step_by(1));
    }
    let first = spec.keys.first as usize;
    let last = if spec.keys.last < 0 {
        args.len().saturating_sub(spec.keys.last.unsigned_abs() as usize)
    } else {
        spec.keys.last as usize
    };
    Ok((first..=last).step_by(spec.keys.step as usize))
}
