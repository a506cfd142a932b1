//! Interconnect simulator (see ARCHITECTURE.md).
