//! The protocol engine (see ARCHITECTURE.md).
