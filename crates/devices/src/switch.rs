//! Settings that are on or off.

use std::ffi::OsStr;

/// What the variable of this name says with this value: `1` on, `0` off; empty is as if not set.
///
/// # Errors
/// In words: it is neither.
pub fn is_on(name: &str, value: Option<&str>) -> Result<Option<bool>, String> {
    match value {
        None | Some("") => Ok(None),
        Some("0") => Ok(Some(false)),
        Some("1") => Ok(Some(true)),
        Some(other) => Err(format!("{name}: 0 or 1, not '{other}'")),
    }
}

/// Whether it is on in this process's environment; `otherwise`: it is not set there, or to what `MPI_Init`
/// refuses.
pub fn here(name: &str, otherwise: bool) -> bool {
    or(std::env::var_os(name).as_deref(), otherwise)
}

fn or(value: Option<&OsStr>, otherwise: bool) -> bool {
    is_on("", value.and_then(OsStr::to_str)).ok().flatten().unwrap_or(otherwise)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_is_on_or_off_or_an_error() {
        let said = |value| is_on("A_SWITCH", value);
        assert_eq!(
            [None, Some(""), Some("0"), Some("1")].map(said),
            [Ok(None), Ok(None), Ok(Some(false)), Ok(Some(true))]
        );
        for wrong in ["off", " 0", "01", "2"] {
            assert_eq!(said(Some(wrong)), Err(format!("A_SWITCH: 0 or 1, not '{wrong}'")));
        }
    }

    #[test]
    fn a_switch_that_says_nothing_is_as_it_is_otherwise() {
        for otherwise in [false, true] {
            let said = |text: &str| or(Some(OsStr::new(text)), otherwise);
            assert_eq!((said("0"), said("1")), (false, true));
            assert_eq!((or(None, otherwise), said(""), said("off")), (otherwise, otherwise, otherwise));
        }
    }
}
