#[path = "../../../../../crates/cli/src/commands/run/cluster/wire.rs"]
mod wire;

/// Frames one after the other. What one says can be said again, and means the same.
pub(crate) fn read(data: &[u8]) {
    let mut rest = data;
    while let Ok(Some((message, length))) = wire::Message::take(rest) {
        assert!(length <= rest.len());
        rest = &rest[length..];
        let mut again = Vec::new();
        message.emit(&mut again);
        assert_eq!(wire::Message::take(&again), Ok(Some((message, again.len()))));
    }
}
