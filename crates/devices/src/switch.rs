//! Settings that are on or off.

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

#[cfg(test)]
mod tests {
    use super::is_on;

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
}
