//! The functions of the ABI, a file a chapter (the chapters of `abi/functions.txt`), and our own beside them
//! (`extension.rs`, `survive.rs`).

#![allow(non_snake_case, reason = "MPI's own names")]

pub(crate) mod abi;
pub(crate) mod attribute;
pub(crate) mod buffered;
pub(crate) mod collective;
pub(crate) mod comm;
pub(crate) mod datatype;
pub(crate) mod dynamic;
pub(crate) mod environment;
pub(crate) mod error;
pub(crate) mod extension;
pub(crate) mod file;
pub(crate) mod group;
pub(crate) mod info;
pub(crate) mod neighbor;
pub(crate) mod op;
pub(crate) mod p2p;
pub(crate) mod partitioned;
pub(crate) mod removed;
pub(crate) mod request;
pub(crate) mod rma;
pub(crate) mod session;
pub(crate) mod status;
pub(crate) mod survive;
pub(crate) mod tool;
pub(crate) mod topology;

/// The forms of collective operations; build.rs writes this.
mod forms {
    use crate::abi::*;
    use crate::arguments::*;
    use crate::collective::{Array, Mode};
    use std::ffi::{c_int, c_void};

    include!(concat!(env!("OUT_DIR"), "/forms.rs"));
}

/// Functions that are not implemented; build.rs writes this.
mod stubs {
    #![allow(unused_variables, unused_imports, reason = "a stub looks at nothing")]
    use crate::abi::*;
    use crate::fault::Fault;
    use std::ffi::{c_char, c_int, c_void};

    include!(concat!(env!("OUT_DIR"), "/stubs.rs"));
}

/// A check that every written function has the signature of the table; build.rs writes this.
mod signatures {
    #![allow(
        dead_code,
        unused_imports,
        clippy::type_complexity,
        clippy::too_many_arguments,
        reason = "made by a generator"
    )]
    use crate::abi::*;
    use std::ffi::{c_char, c_double, c_int, c_void};

    include!(concat!(env!("OUT_DIR"), "/signatures.rs"));
}
