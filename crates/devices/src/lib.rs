//! Real devices (see ARCHITECTURE.md).
