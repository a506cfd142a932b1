//! Numbers of bytes as people write them, alike on the command line and in files.

/// Larger numbers are refused: above, not every whole number has a value of its own in an `f64`.
const MAX: f64 = 9e15;

/// Valid forms, for messages.
pub const FORMS: &str =
    "a number from 0 to 9e15, alone or with K, M, G (times 1024), KiB, MiB, GiB, or kB, MB, GB (times 1000)";

/// Reads `65536`, `64K`, `64KiB`, `1.5 MB`, `1e6` …; whole bytes, rounded. As GNU tools have it, a unit
/// without `B` is a power of 1024, and `kB` is 1000. Small and capital letters are alike.
pub fn parse(text: &str) -> Option<u64> {
    let is_unit = |c: char| c.is_ascii_alphabetic() && !matches!(c, 'e' | 'E');
    let split = text.find(is_unit).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "k" | "kib" => 1024.0,
        "m" | "mib" => 1024.0 * 1024.0,
        "g" | "gib" => 1024.0 * 1024.0 * 1024.0,
        "kb" => 1e3,
        "mb" => 1e6,
        "gb" => 1e9,
        _ => return None,
    };
    let bytes = number.trim().parse::<f64>().ok()? * factor;
    (0.0..=MAX).contains(&bytes).then(|| bytes.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_without_b_are_powers_of_1024() {
        for (text, bytes) in
            [("8", 8), ("64K", 64 << 10), ("64k", 64 << 10), ("1MiB", 1 << 20), ("2G", 2 << 30)]
        {
            assert_eq!(parse(text), Some(bytes), "{text}");
        }
        for (text, bytes) in
            [("1kB", 1_000), ("1.5 MB", 1_500_000), ("3GB", 3_000_000_000), ("1e6", 1_000_000)]
        {
            assert_eq!(parse(text), Some(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_no_number_of_bytes_is_refused() {
        for text in ["", "K", "-1", "4T", "NaN", "inf", "1e300", "99999999999G", "1 parsec", "0x10"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
