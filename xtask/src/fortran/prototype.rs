//! What each argument of a function of the ABI is in Fortran, by rule from its C prototype (MPI-5.0 §19.1).

use anyhow::{Context, Result, bail};

use crate::abi::table::Function;

/// A kind of INTEGER.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    Int,
    Aint,
    Offset,
    Count,
}

/// What an argument is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A buffer of any type. `constant`: it is only read.
    Choice {
        constant: bool,
    },
    /// A number that C takes by value.
    Value(Number),
    /// A number that C writes, or reads and writes.
    Pointer(Number),
    /// An array of numbers.
    Array {
        number: Number,
        constant: bool,
    },
    /// A LOGICAL that C takes by value.
    Logical,
    LogicalPointer,
    LogicalArray {
        constant: bool,
    },
    /// An index that C counts from 0 and Fortran from 1.
    Index,
    /// An array of them; the number of its elements is in `outcount`.
    Indices,
    /// Weights of the edges of a graph, or one of their sentinels.
    Weights {
        constant: bool,
    },
    /// `int ranges[][3]`.
    Ranges,
    /// A handle that C takes by value; its C type.
    Handle(String),
    /// A handle that C writes. `updated`: it reads it first.
    HandlePointer {
        of: String,
        updated: bool,
    },
    /// An array of handles, with the C expression for its length. `updated`: C reads and writes it.
    HandleArray {
        of: String,
        length: String,
        constant: bool,
        updated: bool,
    },
    Status {
        constant: bool,
    },
    Statuses,
    /// A string that C reads. `strip`: blanks at its begin do not count.
    TextIn {
        strip: bool,
    },
    /// A string that C writes, with the macro for the most characters.
    TextOut {
        most: String,
    },
    /// A function of the user; its C type.
    Procedure(String),
    /// A pointer that C writes, `void *baseptr`.
    Address,
    /// `void *attribute_val` of a function that sets (`written`: that gets).
    Attribute {
        written: bool,
    },
    /// `void *extra_state`: an integer of the size of an address.
    ExtraState,
    /// An array of strings.
    Texts,
    /// Two dimensions of strings.
    TextLists,
    /// Error codes of spawned processes, or their sentinel.
    Codes,
}

/// An argument of a Fortran procedure.
#[derive(Clone, Debug)]
pub(super) struct Argument {
    pub(super) name: String,
    pub(super) kind: Kind,
}

/// A procedure: a function of the ABI that has a Fortran binding.
#[derive(Clone, Debug)]
pub(super) struct Procedure {
    /// Without `MPI_`.
    pub(super) name: String,
    /// Without `ierror`.
    pub(super) arguments: Vec<Argument>,
    /// The C type of the result of one that returns no error code: it is a FUNCTION and has no `ierror`.
    pub(super) result: Option<Number>,
    /// The C side is in `fortran/c/special.c`.
    pub(super) special: bool,
}

/// Their C side is not made by rule.
const SPECIAL: &[&str] = &[
    "Init",
    "Init_thread",
    "Info_create_env",
    "Info_get",
    "Info_get_string",
    "Session_get_nth_pset",
    "Comm_spawn",
    "Comm_spawn_multiple",
    "Attr_get",
    "Attr_put",
    "Comm_get_attr",
    "Comm_set_attr",
    "Type_get_attr",
    "Type_set_attr",
    "Win_get_attr",
    "Win_set_attr",
    "Keyval_create",
    "Comm_create_keyval",
    "Type_create_keyval",
    "Win_create_keyval",
    "Grequest_start",
    "Register_datarep",
    "Register_datarep_c",
    "Buffer_detach",
    "Buffer_detach_c",
    "Comm_detach_buffer",
    "Comm_detach_buffer_c",
    "Session_detach_buffer",
    "Session_detach_buffer_c",
    "Pcontrol",
    "Wtime",
    "Wtick",
    "Aint_add",
    "Aint_diff",
];

/// `int` arguments that are LOGICAL in Fortran.
const LOGICALS: &[&str] =
    &["flag", "commute", "reorder", "high", "weighted", "periods", "remain_dims", "is_set"];

const HANDLES: &[&str] = &[
    "MPI_Comm",
    "MPI_Datatype",
    "MPI_Errhandler",
    "MPI_File",
    "MPI_Group",
    "MPI_Info",
    "MPI_Message",
    "MPI_Op",
    "MPI_Request",
    "MPI_Session",
    "MPI_Win",
];

/// Whether a function has a Fortran binding: not the tool interface, nor the conversions of handles.
fn has_binding(function: &Function) -> bool {
    let name = function.name.as_str();
    function.chapter != "tool" && !name.ends_with("_toint") && !name.ends_with("_fromint")
}

/// The procedures of all functions.
///
/// # Errors
/// A prototype follows no rule.
pub(super) fn procedures(functions: &[Function]) -> Result<Vec<Procedure>> {
    let bound = functions.iter().filter(|function| has_binding(function));
    bound.map(|f| procedure(f).with_context(|| format!("{} has no form in Fortran", f.name))).collect()
}

fn procedure(function: &Function) -> Result<Procedure> {
    let name = function.name.strip_prefix("MPI_").context("it does not begin with MPI_")?.to_owned();
    let parts = function.c_params.split(',').map(str::trim).filter(|text| !text.is_empty());
    let mut arguments = Vec::new();
    for text in parts.filter(|text| *text != "void" && *text != "...") {
        let is_of_c = match name.as_str() {
            "Init" | "Init_thread" | "Info_create_env" => text.contains("argc") || text.contains("argv"),
            _ => false,
        };
        if !is_of_c {
            arguments.push(argument(&name, text).with_context(|| format!("argument `{text}`"))?);
        }
    }
    let result = match function.result.as_str() {
        "int" => None,
        "MPI_Aint" => Some(Number::Aint),
        "double" => Some(Number::Offset), // Only its being there matters: see `wtime` in the printers.
        other => bail!("it returns {other}"),
    };
    let special = SPECIAL.contains(&name.as_str());
    Ok(Procedure { name, arguments, result, special })
}

fn argument(function: &str, text: &str) -> Result<Argument> {
    let (head, array) = text.split_at(text.find('[').unwrap_or(text.len()));
    let at = head.rfind(|c: char| !c.is_alphanumeric() && c != '_').map_or(0, |at| at + 1);
    let (ty, name) = (head[..at].trim(), &head[at..]);
    let constant = ty.starts_with("const ");
    let ty = ty.trim_start_matches("const ").trim();
    let (base, stars) = (ty.trim_end_matches('*').trim(), ty.matches('*').count());
    let shape = match (stars, array) {
        (0, "") => Shape::Value,
        (1, "") => Shape::Pointer,
        (0, "[]") => Shape::Array,
        (0, "[][3]") => Shape::Ranges,
        (1 | 2, "[]") => Shape::Strings(stars),
        _ => bail!("its type follows no rule"),
    };
    let kind = kind(function, base, name, shape, constant)?;
    let name = if name == "indx" { "index" } else { name };
    Ok(Argument { name: name.to_owned(), kind })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Value,
    Pointer,
    Array,
    Ranges,
    Strings(usize),
}

fn kind(function: &str, base: &str, name: &str, shape: Shape, constant: bool) -> Result<Kind> {
    let number = match base {
        "int" => Some(Number::Int),
        "MPI_Aint" => Some(Number::Aint),
        "MPI_Offset" => Some(Number::Offset),
        "MPI_Count" => Some(Number::Count),
        _ => None,
    };
    let of = base.to_owned();
    Ok(match (base, shape) {
        ("void", Shape::Pointer) => match name {
            "baseptr" | "buffer_addr" => Kind::Address,
            "attribute_val" => {
                Kind::Attribute { written: function == "Attr_get" || function.ends_with("get_attr") }
            }
            "extra_state" => Kind::ExtraState,
            _ => Kind::Choice { constant },
        },
        ("char", Shape::Strings(1)) => Kind::Texts,
        ("char", Shape::Strings(2)) => Kind::TextLists,
        ("char", _) if constant => Kind::TextIn { strip: function.starts_with("Info_") },
        ("char", Shape::Pointer) => Kind::TextOut { most: most(name)?.to_owned() },
        ("MPI_Status", Shape::Pointer) if name == "array_of_statuses" => Kind::Statuses,
        ("MPI_Status", Shape::Pointer) => Kind::Status { constant },
        ("int", Shape::Ranges) => Kind::Ranges,
        ("int", _) if LOGICALS.contains(&name) => match shape {
            Shape::Value => Kind::Logical,
            Shape::Pointer => Kind::LogicalPointer,
            _ => Kind::LogicalArray { constant },
        },
        ("int", Shape::Pointer) if name == "indx" => Kind::Index,
        ("int", Shape::Array) if name == "array_of_indices" => Kind::Indices,
        ("int", Shape::Array) if name == "array_of_errcodes" => Kind::Codes,
        ("int", Shape::Array) if name.ends_with("weights") => Kind::Weights { constant },
        (_, Shape::Value) if number.is_some() => Kind::Value(number.context("a number")?),
        (_, Shape::Pointer) if number.is_some() => Kind::Pointer(number.context("a number")?),
        (_, Shape::Array) => match number {
            Some(number) => Kind::Array { number, constant },
            None => Kind::HandleArray {
                of,
                length: length(function, name)?.to_owned(),
                constant,
                updated: name == "array_of_requests",
            },
        },
        (_, Shape::Value) if HANDLES.contains(&base) => Kind::Handle(of),
        (_, Shape::Pointer) if HANDLES.contains(&base) => {
            Kind::HandlePointer { of, updated: is_updated(function, base) }
        }
        (_, Shape::Pointer) if base.contains("_function") => Kind::Procedure(of),
        _ => bail!("its type follows no rule"),
    })
}

/// Whether a function reads the handle it writes.
fn is_updated(function: &str, handle: &str) -> bool {
    let request = ["Wait", "Test", "Start", "Cancel"];
    function.ends_with("_free")
        || matches!(function, "Type_commit" | "Comm_disconnect" | "File_close" | "Session_finalize")
        || (handle == "MPI_Request" && request.contains(&function))
        || handle == "MPI_Message" && !function.contains("probe")
}

fn most(name: &str) -> Result<&'static str> {
    Ok(match name {
        "comm_name" | "type_name" | "win_name" => "MPI_MAX_OBJECT_NAME",
        "string" => "MPI_MAX_ERROR_STRING",
        "name" => "MPI_MAX_PROCESSOR_NAME",
        "version" => "MPI_MAX_LIBRARY_VERSION_STRING",
        "port_name" => "MPI_MAX_PORT_NAME",
        "key" => "MPI_MAX_INFO_KEY",
        "value" => "MPI_MAX_INFO_VAL",
        "datarep" => "MPI_MAX_DATAREP_STRING",
        "pset_name" => "MPI_MAX_PSET_NAME_LEN",
        _ => bail!("the length of `{name}` is not known"),
    })
}

/// The length of an array of handles, in C, of the Fortran arguments.
fn length(function: &str, name: &str) -> Result<&'static str> {
    let is_neighbor = function.contains("eighbor");
    Ok(match name {
        "array_of_requests" if function.ends_with("some") => "length_of(*incount)",
        "array_of_requests" | "array_of_types" | "array_of_info" => "length_of(*count)",
        "array_of_datatypes" => "length_of(*max_datatypes)",
        "sendtypes" if is_neighbor => "destinations_of(to_MPI_Comm(*comm))",
        "recvtypes" if is_neighbor => "sources_of(to_MPI_Comm(*comm))",
        // In place the types to send are not looked at, so there need not be any.
        "sendtypes" => "choice(sendbuf) == MPI_IN_PLACE ? 0 : peers_of(to_MPI_Comm(*comm))",
        "recvtypes" => "peers_of(to_MPI_Comm(*comm))",
        _ => bail!("the length of `{name}` is not known"),
    })
}
