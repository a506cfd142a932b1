//! What each argument of a function of the ABI needs to be translated, by rule from its C prototype.

use anyhow::{Result, bail};

use super::constants::HANDLES;
use crate::abi::table::Function;

/// Which way values go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    In,
    Out,
    InOut,
}

/// What an argument is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The same in all ABIs.
    Plain,
    /// A buffer, or MPI_IN_PLACE.
    Buffer,
    /// A buffer to be attached, or MPI_BUFFER_AUTOMATIC.
    Attached,
    /// A variable for the address of a buffer that was attached, or MPI_BUFFER_AUTOMATIC.
    Detached,
    /// Weights of a graph, or a sentinel.
    Weights,
    /// A number that `in_GROUP` translates.
    Number(&'static str),
    /// A variable for a number.
    NumberPointer(&'static str, Way),
    /// An array of numbers and, in C, its length.
    Numbers(&'static str, Way, &'static str),
    /// A handle; its C type. `unsure`: on most processes it is not looked at.
    Handle {
        of: String,
        unsure: bool,
    },
    /// A variable for a handle.
    HandlePointer(String, Way),
    /// An array of handles and, in C, its length.
    Handles {
        of: String,
        way: Way,
        length: &'static str,
    },
    Status(Way),
    /// An array of statuses that the library writes, and its length.
    Statuses(&'static str),
    /// A text that the library writes, its longest length by the constant's name, and the argument for its
    /// length.
    Text {
        most: &'static str,
        length: &'static str,
    },
}

/// An argument of a function.
pub(super) struct Argument {
    pub(super) name: String,
    pub(super) kind: Kind,
}

/// Functions that translate/c/special.c has.
const SPECIAL: &[&str] = &[
    "Op_create",
    "Op_create_c",
    "Comm_create_errhandler",
    "File_create_errhandler",
    "Win_create_errhandler",
    "Session_create_errhandler",
    "Comm_create_keyval",
    "Type_create_keyval",
    "Win_create_keyval",
    "Keyval_create",
    "Attr_get",
    "Comm_get_attr",
    "Type_get_attr",
    "Win_get_attr",
    "Grequest_start",
    "Register_datarep",
    "Register_datarep_c",
    "Type_get_contents",
    "Type_get_contents_c",
    "Type_create_struct",
    "Type_create_struct_c",
    "Comm_spawn",
    "Comm_spawn_multiple",
    "Open_port",
    "Status_get_error",
    "Status_get_source",
    "Status_get_tag",
    "Status_set_error",
    "Status_set_source",
    "Status_set_tag",
    "Pcontrol",
    "Wtime",
    "Wtick",
    "Aint_add",
    "Aint_diff",
    "Abi_get_version",
    "Get_version",
];

/// Functions that are refused by name, and why.
pub(super) const REFUSED: &[&str] = &[
    "MPI_T_event_get_info",
    "MPI_T_event_handle_free",
    "MPI_T_event_register_callback",
    "MPI_T_event_set_dropped_handler",
];

/// Functions that have no name but their `PMPI_` one for a program of Open MPI: neither 4 nor 5 has them, nor
/// MPI_BUFFER_AUTOMATIC, which they take. mpi4py uses what it finds.
pub(super) const NOT_OF_OPENMPI: &[&str] = &[
    "MPI_Comm_attach_buffer",
    "MPI_Comm_attach_buffer_c",
    "MPI_Comm_detach_buffer",
    "MPI_Comm_detach_buffer_c",
    "MPI_Comm_flush_buffer",
    "MPI_Comm_iflush_buffer",
    "MPI_Session_attach_buffer",
    "MPI_Session_attach_buffer_c",
    "MPI_Session_detach_buffer",
    "MPI_Session_detach_buffer_c",
    "MPI_Session_flush_buffer",
    "MPI_Session_iflush_buffer",
];

/// Whether a function's translation is made by rule.
pub(super) fn is_by_rule(function: &Function) -> bool {
    let name = function.name.trim_start_matches("MPI_");
    !SPECIAL.contains(&name)
        && !REFUSED.contains(&function.name.as_str())
        && !name.ends_with("_toint")
        && !name.ends_with("_fromint")
}

/// The arguments of a function.
///
/// # Errors
/// One follows no rule.
pub(super) fn arguments(function: &Function) -> Result<Vec<Argument>> {
    let texts =
        function.c_params.split(',').map(str::trim).filter(|text| !text.is_empty() && *text != "void");
    texts.map(|text| argument(function, text)).collect()
}

fn argument(function: &Function, text: &str) -> Result<Argument> {
    let (head, array) = text.split_at(text.find('[').unwrap_or(text.len()));
    let at = head.rfind(|c: char| !c.is_alphanumeric() && c != '_').map_or(0, |at| at + 1);
    let (ty, name) = (head[..at].trim(), &head[at..]);
    let is_const = ty.starts_with("const ");
    let ty = ty.trim_start_matches("const ").trim();
    let (base, stars) = (ty.trim_end_matches('*').trim(), ty.matches('*').count());
    let function_name = function.name.trim_start_matches("MPI_");
    let depth = stars + usize::from(!array.is_empty());
    let kind = match base {
        base if HANDLES.contains(&base) => handle(function_name, base, name, depth, array, is_const)?,
        "MPI_Status" if name == "array_of_statuses" => {
            Kind::Statuses(if function_name.ends_with("some") { "*outcount" } else { "count" })
        }
        "MPI_Status" => Kind::Status(match is_const {
            true => Way::In,
            false if function_name.starts_with("Status_set") => Way::InOut,
            false => Way::Out,
        }),
        "MPI_T_cb_safety" => Kind::Number("cb_safety"),
        "MPI_T_source_order" => Kind::NumberPointer("source_order", Way::Out),
        "MPI_Offset" if name == "disp" && stars == 0 => Kind::Number("displacement"),
        "void" => pointer(function, name),
        "int" if name.ends_with("weights") => Kind::Weights,
        "int" => number(function_name, name, depth, array),
        "char" if stars == 1 && !is_const && array.is_empty() => text_out(function_name, name),
        _ => Kind::Plain,
    };
    Ok(Argument { name: name.to_owned(), kind })
}

fn pointer(function: &Function, name: &str) -> Kind {
    let is_collective = matches!(function.chapter.as_str(), "collective" | "neighbor");
    let is_local = function.name.starts_with("MPI_Reduce_local");
    match name {
        "sendbuf" | "recvbuf" if is_collective => Kind::Buffer,
        // Where it is an error, it has to be seen.
        "inbuf" | "inoutbuf" if is_local => Kind::Buffer,
        "buffer" if function.name.contains("attach") => Kind::Attached,
        "buffer_addr" => Kind::Detached,
        _ => Kind::Plain,
    }
}

/// The operation that a function is a form of: `Gather` of `MPI_Igather_c`.
fn operation(name: &str) -> String {
    let name = name.trim_end_matches("_c").trim_end_matches("_init");
    match name.strip_prefix('I') {
        Some(rest) if rest.starts_with(|c: char| c.is_ascii_lowercase()) && !rest.starts_with('n') => {
            rest[..1].to_uppercase() + &rest[1..]
        }
        _ => name.to_owned(),
    }
}

fn handle(function: &str, of: &str, name: &str, depth: usize, array: &str, is_const: bool) -> Result<Kind> {
    let of = of.to_owned();
    if depth == 0 {
        let rooted = ["Gather", "Gatherv", "Scatter", "Scatterv"].contains(&operation(function).as_str());
        let is_type = of == "MPI_Datatype";
        return Ok(Kind::Handle { unsure: rooted && is_type, of });
    }
    if array.is_empty() {
        return Ok(Kind::HandlePointer(
            of.clone(),
            if is_updated(function, &of) { Way::InOut } else { Way::Out },
        ));
    }
    let is_neighbor = function.contains("eighbor");
    let length = match name {
        "array_of_requests" if function.ends_with("some") => "incount",
        "array_of_requests" | "array_of_types" | "array_of_info" => "count",
        "sendtypes" if is_neighbor => "destinations_of(a_comm)",
        "recvtypes" if is_neighbor => "sources_of(a_comm)",
        // In place the types to send are not looked at, so there need not be any.
        "sendtypes" => "sendbuf == MPI_IN_PLACE ? 0 : peers_of(a_comm)",
        "recvtypes" => "peers_of(a_comm)",
        _ => bail!("{function}: the length of `{name}` is not known"),
    };
    Ok(Kind::Handles { of, way: if is_const { Way::In } else { Way::InOut }, length })
}

/// Whether a function reads the handle it writes.
fn is_updated(function: &str, of: &str) -> bool {
    let request = ["Wait", "Test", "Start", "Cancel"];
    (function.ends_with("_free") && !function.starts_with("T_"))
        || matches!(function, "Type_commit" | "Comm_disconnect" | "File_close" | "Session_finalize")
        || (of == "MPI_Request" && request.contains(&function))
        || of == "MPI_Message" && !function.contains("probe")
}

fn number(function: &str, name: &str, depth: usize, array: &str) -> Kind {
    use Way::{In, InOut, Out};
    let is_array = !array.is_empty();
    match (function, name, depth) {
        ("Group_translate_ranks", "ranks1", _) => return Kind::Numbers("rank", In, "n"),
        ("Group_translate_ranks", "ranks2", _) => return Kind::Numbers("rank", Out, "n"),
        ("Type_create_darray" | "Type_create_darray_c", "rank", _) => return Kind::Plain,
        ("Abort", ..) => return Kind::Plain,
        ("Status_get_error", "error", 1) => return Kind::NumberPointer("error", Out),
        ("Status_set_error", "error", 0) => return Kind::Number("error"),
        ("Status_get_source", "source", 1) => return Kind::NumberPointer("rank", Out),
        ("Status_get_tag", "tag", 1) => return Kind::NumberPointer("tag", Out),
        ("Topo_test", "status", 1) => return Kind::NumberPointer("topology", Out),
        ("Group_compare" | "Comm_compare", "result", 1) => return Kind::NumberPointer("comparison", Out),
        ("T_pvar_get_index", "var_class", 0) => return Kind::Number("pvar_class"),
        _ => {}
    }
    let group = match name {
        "dest" | "source" | "rank" | "root" | "target_rank" | "local_leader" | "remote_leader"
            if depth == 0 =>
        {
            "rank"
        }
        "rank_source" | "rank_dest" => "rank",
        "tag" | "sendtag" | "recvtag" if depth == 0 => "tag",
        "errorcode" | "errorclass" => "error",
        "required" | "provided" => "thread",
        "order" => "order",
        "array_of_distribs" => return Kind::Numbers("distribution", In, "ndims"),
        "array_of_dargs" => return Kind::Numbers("darg", In, "ndims"),
        "combiner" => "combiner",
        "typeclass" => "typeclass",
        "split_type" => "split_type",
        "lock_type" => "lock",
        "whence" => "whence",
        "amode" => "access",
        "assert" => "assertion",
        "verbosity" => "verbosity",
        "bind" => "bind",
        "scope" => "scope",
        "var_class" => "pvar_class",
        "keyval" | "comm_keyval" | "type_keyval" | "win_keyval" => "keyval",
        _ => return Kind::Plain,
    };
    match depth {
        0 => Kind::Number(group),
        1 if !is_array => Kind::NumberPointer(group, if group == "keyval" { InOut } else { Out }),
        _ => Kind::Plain,
    }
}

fn text_out(function: &str, name: &str) -> Kind {
    let text = |most, length| Kind::Text { most, length };
    match (function, name) {
        (_, "comm_name" | "type_name" | "win_name") => text("MPI_MAX_OBJECT_NAME", "resultlen"),
        (_, "string") => text("MPI_MAX_ERROR_STRING", "resultlen"),
        ("Get_processor_name", _) => text("MPI_MAX_PROCESSOR_NAME", "resultlen"),
        (_, "version") => text("MPI_MAX_LIBRARY_VERSION_STRING", "resultlen"),
        ("Info_get_nthkey", _) => text("MPI_MAX_INFO_KEY", "NULL"),
        (_, "datarep") => text("MPI_MAX_DATAREP_STRING", "NULL"),
        (_, "port_name") => text("MPI_MAX_PORT_NAME", "NULL"),
        // The caller says how long the rest may be.
        _ => Kind::Plain,
    }
}
