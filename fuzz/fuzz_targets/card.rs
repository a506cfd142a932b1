//! Business cards, and what users write about rails.
#![no_main]
use ayatori_devices::tcp::{Card, PortRange, RailFilter};

libfuzzer_sys::fuzz_target!(|text: &str| {
    if let Ok(card) = Card::parse(text) {
        let again = card.emit(4096).expect("what was parsed fits");
        assert_eq!(Card::parse(&again), Ok(card));
    }
    let _ = PortRange::parse(text);
    let _ = RailFilter::new(Some(text), Some(text));
});
