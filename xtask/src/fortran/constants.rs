//! The constants and sentinels of Fortran, and `mpif.h`, which has nothing else.

use anyhow::{Context, Result};

use crate::abi::table::Item;

/// A named constant.
pub(super) struct Constant {
    pub(super) name: String,
    pub(super) value: i64,
    pub(super) of: Type,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Integer,
    Offset,
    /// A handle; its C type.
    Handle(String),
}

/// A variable that stands for an argument that is not there; C knows it by its address.
pub(super) struct Sentinel {
    pub(super) name: &'static str,
    /// The common block, and without the underscore at its end the name in C.
    pub(super) common: &'static str,
    /// Its type in the old interfaces, and in `mpi_f08` if that is another.
    pub(super) old: &'static str,
    pub(super) new: &'static str,
    /// Its dimensions in both.
    pub(super) old_shape: &'static str,
    pub(super) new_shape: &'static str,
}

macro_rules! sentinel {
    ($name:literal, $common:literal, $old:literal, $old_shape:literal, $new:literal, $new_shape:literal) => {
        Sentinel {
            name: $name,
            common: $common,
            old: $old,
            new: $new,
            old_shape: $old_shape,
            new_shape: $new_shape,
        }
    };
}

pub(super) const SENTINELS: &[Sentinel] = &[
    sentinel!("MPI_BOTTOM", "ayatori_bottom", "INTEGER", "", "INTEGER(c_int)", ""),
    sentinel!("MPI_IN_PLACE", "ayatori_in_place", "INTEGER", "", "INTEGER(c_int)", ""),
    sentinel!("MPI_BUFFER_AUTOMATIC", "ayatori_buffer_automatic", "INTEGER", "", "INTEGER(c_int)", ""),
    sentinel!("MPI_STATUS_IGNORE", "ayatori_status_ignore", "INTEGER", "(8)", "TYPE(MPI_Status)", ""),
    sentinel!(
        "MPI_STATUSES_IGNORE",
        "ayatori_statuses_ignore",
        "INTEGER",
        "(8,1)",
        "TYPE(MPI_Status)",
        "(1)"
    ),
    sentinel!("MPI_ERRCODES_IGNORE", "ayatori_errcodes_ignore", "INTEGER", "(1)", "INTEGER(c_int)", "(1)"),
    sentinel!("MPI_UNWEIGHTED", "ayatori_unweighted", "INTEGER", "(1)", "INTEGER(c_int)", "(1)"),
    sentinel!("MPI_WEIGHTS_EMPTY", "ayatori_weights_empty", "INTEGER", "(1)", "INTEGER(c_int)", "(1)"),
    sentinel!("MPI_ARGV_NULL", "ayatori_argv_null", "CHARACTER*1", "(1)", "CHARACTER(c_char)", "(1)"),
    sentinel!("MPI_ARGVS_NULL", "ayatori_argvs_null", "CHARACTER*1", "(1,1)", "CHARACTER(c_char)", "(1,1)"),
];

/// The predefined procedures.
pub(super) const PREDEFINED: &[&str] = &[
    "MPI_NULL_COPY_FN",
    "MPI_NULL_DELETE_FN",
    "MPI_DUP_FN",
    "MPI_COMM_NULL_COPY_FN",
    "MPI_COMM_NULL_DELETE_FN",
    "MPI_COMM_DUP_FN",
    "MPI_TYPE_NULL_COPY_FN",
    "MPI_TYPE_NULL_DELETE_FN",
    "MPI_TYPE_DUP_FN",
    "MPI_WIN_NULL_COPY_FN",
    "MPI_WIN_NULL_DELETE_FN",
    "MPI_WIN_DUP_FN",
    "MPI_CONVERSION_FN_NULL",
];

/// What Fortran has besides the constants of C. A status is eight integers, counted from 1.
const OWN: &[(&str, i64)] =
    &[("MPI_STATUS_SIZE", 8), ("MPI_SOURCE", 1), ("MPI_TAG", 2), ("MPI_ERROR", 3), ("MPI_INTEGER_KIND", 4)];

/// The integer kinds.
pub(super) const KINDS: &[&str] = &["MPI_ADDRESS_KIND", "MPI_COUNT_KIND", "MPI_OFFSET_KIND"];

fn number(text: &str) -> Result<i64> {
    let value = match text.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    value.with_context(|| format!("`{text}` is no number"))
}

/// The constants of the ABI that Fortran has.
///
/// # Errors
/// A value cannot be read.
pub(super) fn constants(items: &[Item]) -> Result<Vec<Constant>> {
    let mut all = Vec::new();
    for (name, value) in OWN {
        all.push(Constant { name: (*name).to_owned(), value: *value, of: Type::Integer });
    }
    for item in items {
        let (name, value, of) = match item {
            Item::Int { name, value } => (name, number(value)?, Type::Integer),
            // Fortran strings have no zero at their ends.
            Item::Define { name, value } if name.starts_with("MPI_MAX_") => {
                (name, number(value)? - 1, Type::Integer)
            }
            Item::Define { name, value } => (name, number(value)?, Type::Integer),
            Item::Typed { ty, name, value } if ty == "MPI_Offset" => (name, number(value)?, Type::Offset),
            Item::Typed { ty, name, value } if !ty.contains('*') => {
                (name, number(value)?, Type::Handle(ty.clone()))
            }
            Item::Alias { name, other } => {
                let known = all.iter().find(|c: &&Constant| c.name == *other);
                let known = known.with_context(|| format!("{name} is another name of nothing"))?;
                (name, known.value, known.of.clone())
            }
            _ => continue,
        };
        if !name.starts_with("MPI_T_") && !name.starts_with("MPI_F_") {
            all.push(Constant { name: name.clone(), value, of });
        }
    }
    Ok(all)
}

/// `mpif.h`: statements that are right in fixed and in free form, of at most 72 columns.
pub(super) fn mpif_h(constants: &[Constant]) -> String {
    let mut out = String::from(
        "! Ayatori: MPI for Fortran. Written by `cargo xtask` from crates/mpi/abi/constants.txt.\n\
         ! SPDX-License-Identifier: MIT OR Apache-2.0\n",
    );
    declarations(&mut out, constants);
    for prefix in ["", "P"] {
        for (ty, name) in FUNCTIONS {
            out.push_str(&format!("      {ty} {prefix}{name}\n      EXTERNAL {prefix}{name}\n"));
        }
    }
    for name in PREDEFINED {
        out.push_str(&format!("      EXTERNAL {name}\n"));
    }
    out
}

/// The procedures that are functions.
const FUNCTIONS: &[(&str, &str)] = &[
    ("DOUBLE PRECISION", "MPI_WTIME"),
    ("DOUBLE PRECISION", "MPI_WTICK"),
    ("INTEGER(KIND=MPI_ADDRESS_KIND)", "MPI_AINT_ADD"),
    ("INTEGER(KIND=MPI_ADDRESS_KIND)", "MPI_AINT_DIFF"),
];

/// The constants and sentinels of `mpif.h` and of module `mpi`.
pub(super) fn declarations(out: &mut String, constants: &[Constant]) {
    let mut constant = |ty: &str, name: &str, value: &str| {
        out.push_str(&format!("      {ty} {name}\n      PARAMETER ({name}={value})\n"));
    };
    for kind in KINDS {
        constant("INTEGER", kind, "SELECTED_INT_KIND(18)");
    }
    for Constant { name, value, of } in constants {
        let ty = if *of == Type::Offset { "INTEGER(KIND=MPI_OFFSET_KIND)" } else { "INTEGER" };
        constant(ty, name, &value.to_string());
    }
    constant("LOGICAL", "MPI_SUBARRAYS_SUPPORTED", ".FALSE.");
    constant("LOGICAL", "MPI_ASYNC_PROTECTS_NONBLOCKING", ".FALSE.");
    for Sentinel { name, common, old, old_shape, .. } in SENTINELS {
        out.push_str(&format!("      {old} {name}{old_shape}\n      COMMON /{common}/ {name}\n"));
        out.push_str(&format!("      SAVE /{common}/\n"));
    }
}
