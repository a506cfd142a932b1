//! The standard MPI ABI (see ARCHITECTURE.md).
