//! `MPI_Barrier`.

mod binomial;
mod dissemination;

use super::{Algorithm, Builder, Choice, Context, Pool, Schedule, no_such_algorithm};
use crate::error::Error;

/// A barrier: no process leaves before all have entered.
///
/// # Errors
/// [`Error::Argument`] for an algorithm of another operation.
pub fn barrier(pool: &mut Pool, context: Context, choice: Choice) -> Result<Schedule, Error> {
    let mut builder = Builder::new(pool, false);
    match choice.algorithm {
        Algorithm::Binomial => binomial::build(&mut builder, context),
        Algorithm::Dissemination => dissemination::build(&mut builder, context),
        _ => return no_such_algorithm(),
    }
    Ok(builder.finish())
}
