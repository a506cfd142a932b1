//! A hash that all processes compute alike.

/// The number that the generator `splitmix64` gives in this state (Steele, Lea and Flood 2014, "Fast
/// splittable pseudorandom number generators"): every bit of the state changes each bit of it as likely as
/// not.
pub(crate) fn splitmix64(state: u64) -> u64 {
    let hash = state.wrapping_add(SPLITMIX64_STEP);
    let hash = (hash ^ (hash >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let hash = (hash ^ (hash >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    hash ^ (hash >> 31)
}

/// From a state of the generator to the next.
pub(crate) const SPLITMIX64_STEP: u64 = 0x9E37_79B9_7F4A_7C15;

#[cfg(test)]
mod tests {
    use super::*;

    /// The first numbers of the generators that begin with these states, as Vigna's reference
    /// implementation prints them.
    #[test]
    fn it_gives_the_published_numbers() {
        let first_five = |seed: u64| {
            [0, 1, 2, 3, 4].map(|step: u64| splitmix64(seed.wrapping_add(SPLITMIX64_STEP.wrapping_mul(step))))
        };
        assert_eq!(first_five(0)[..3], [0xE220_A839_7B1D_CDAF, 0x6E78_9E6A_A1B9_65F4, 0x06C4_5D18_8009_454F]);
        let expected = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ];
        assert_eq!(first_five(1_234_567), expected);
    }
}
