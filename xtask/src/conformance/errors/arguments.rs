//! Right and wrong values for every argument of the functions of the ABI, by its type and its name.

use crate::abi::table::{Function, Param};

/// A wrong value and the error classes that fit it.
pub(super) struct Wrong {
    /// A C expression.
    pub(super) value: String,
    /// Names of classes.
    pub(super) classes: Vec<&'static str>,
}

fn wrong(value: &str, classes: &[&'static str]) -> Wrong {
    Wrong { value: value.to_owned(), classes: classes.to_vec() }
}

/// Handles: the C type, a right object, the null handle, a freed one, the class.
struct Handle {
    ty: &'static str,
    right: &'static str,
    null: &'static str,
    freed: &'static str,
    class: &'static str,
}

const fn handle(
    ty: &'static str,
    right: &'static str,
    null: &'static str,
    freed: &'static str,
    class: &'static str,
) -> Handle {
    Handle { ty, right, null, freed, class }
}

const HANDLES: [Handle; 11] = [
    handle("MPI_Comm", "comm", "MPI_COMM_NULL", "freed_comm", "MPI_ERR_COMM"),
    handle("MPI_Datatype", "MPI_INT", "MPI_DATATYPE_NULL", "freed_type", "MPI_ERR_TYPE"),
    handle("MPI_Op", "MPI_SUM", "MPI_OP_NULL", "freed_op", "MPI_ERR_OP"),
    handle("MPI_Group", "group", "MPI_GROUP_NULL", "freed_group", "MPI_ERR_GROUP"),
    handle("MPI_Info", "info", "MPI_INFO_NULL", "freed_info", "MPI_ERR_INFO"),
    handle("MPI_Win", "win", "MPI_WIN_NULL", "freed_win", "MPI_ERR_WIN"),
    handle("MPI_File", "file", "MPI_FILE_NULL", "freed_file", "MPI_ERR_FILE"),
    handle("MPI_Errhandler", "errhandler", "MPI_ERRHANDLER_NULL", "freed_errhandler", "MPI_ERR_ERRHANDLER"),
    handle("MPI_Session", "session", "MPI_SESSION_NULL", "freed_session", "MPI_ERR_SESSION"),
    handle("MPI_Request", "persistent", "MPI_REQUEST_NULL", "freed_request", "MPI_ERR_REQUEST"),
    handle(
        "MPI_Message",
        "MPI_MESSAGE_NO_PROC",
        "MPI_MESSAGE_NULL",
        "(MPI_Message)freed_request",
        "MPI_ERR_REQUEST",
    ),
];

/// The C name without the suffix of the large-count form.
fn stem(function: &Function) -> &str {
    function.name.strip_suffix("_c").unwrap_or(&function.name)
}

/// Functions whose only handle argument by address is one that they take in.
fn takes_in(function: &Function, param: &Param) -> bool {
    let name = stem(function);
    name.ends_with("_free")
        || matches!(
            name,
            "MPI_Type_commit"
                | "MPI_File_close"
                | "MPI_Comm_disconnect"
                | "MPI_Session_finalize"
                | "MPI_Cancel"
                | "MPI_Start"
                | "MPI_Wait"
                | "MPI_Test"
        )
        || param.rust_type == "*mut MPI_Message" && name.contains("recv")
}

/// The object that `function` needs for a parameter of a handle's type.
fn right_handle(function: &Function, handle: &Handle) -> String {
    let name = stem(function);
    let object = match handle.ty {
        "MPI_Comm" if name.contains("eighbor_") || name.starts_with("MPI_Cart") => {
            if name.ends_with("_create") || name.ends_with("_map") { "comm" } else { "cart" }
        }
        "MPI_Comm" if name.starts_with("MPI_Graph") => {
            if name.ends_with("_create") || name.ends_with("_map") { "comm" } else { "graph" }
        }
        "MPI_Comm" if name.starts_with("MPI_Dist_graph_neighbors") => "dist",
        "MPI_Comm" if name == "MPI_Graphdims_get" => "graph",
        "MPI_Info" if !name.starts_with("MPI_Info") => "MPI_INFO_NULL",
        "MPI_Win" if passive(name) => "win_locked",
        "MPI_Request" if name.starts_with("MPI_Grequest") => "grequest",
        "MPI_Request" if name == "MPI_Parrived" => "partitioned_receive",
        "MPI_Request" if name.starts_with("MPI_P") => "partitioned",
        "MPI_Errhandler" if name == "MPI_Session_init" => "MPI_ERRORS_RETURN",
        "MPI_Datatype" if name == "MPI_Type_free" || name == "MPI_Type_commit" => "derived",
        "MPI_Datatype" if name.starts_with("MPI_Type_get_contents") => "derived",
        "MPI_Op" if name == "MPI_Op_free" => "op",
        _ => handle.right,
    };
    object.to_owned()
}

/// Operations with a request, and what closes an epoch of locks.
fn passive(name: &str) -> bool {
    matches!(name, "MPI_Rput" | "MPI_Rget" | "MPI_Raccumulate" | "MPI_Rget_accumulate")
        || name.starts_with("MPI_Win_flush")
        || name.starts_with("MPI_Win_unlock")
        || name == "MPI_Win_sync"
}

/// An array of handles that begins with `first`; the Cartesian communicator has two neighbours.
fn array(function: &Function, handle: &Handle, first: &str) -> String {
    format!("({}[]){{{first}, {}}}", handle.ty, right_handle(function, handle))
}

fn handle_of(ty: &str) -> Option<&'static Handle> {
    HANDLES.iter().find(|handle| handle.ty == ty)
}

/// A right value of parameter `index`, as a C expression.
pub(super) fn right(function: &Function, index: usize) -> String {
    let param = &function.params[index];
    let name = stem(function);
    let ty = param.rust_type.as_str();
    if let Some(handle) = handle_of(ty) {
        return right_handle(function, handle);
    }
    if let Some(handle) = ty.strip_prefix("*mut ").and_then(handle_of) {
        if takes_in(function, param) {
            return format!("&({}){{{}}}", handle.ty, right_handle(function, handle));
        }
        if param.name == "array_of_requests" {
            return "(MPI_Request[]){persistent}".into();
        }
    }
    if let Some(handle) = ty.strip_prefix("*const ").and_then(handle_of) {
        return array(function, handle, &right_handle(function, handle));
    }
    match ty {
        "Callback" => format!("(MPI_{})(void *)callback", callback_type(function, index)),
        "c_int" | "MPI_Count" | "MPI_Aint" | "MPI_Offset" => right_number(name, &param.name).into(),
        "*const c_int" | "*const MPI_Count" | "*const MPI_Aint" => right_array(name, param),
        "*mut [c_int; 3]" => "(int[][3]){{0, 0, 1}}".into(),
        "*const c_char" if name.to_lowercase().contains("pack_external") => "\"external32\"".into(),
        "*const c_char" => right_string(&param.name).into(),
        "*mut c_int" if name.ends_with("_free_keyval") => {
            format!("&(int){{{}}}", keyval(&param.name))
        }
        _ if param.name == "array_of_commands" => "(char *[]){\"key\"}".into(),
        _ if ty.starts_with('*') => format!("(void *)scratch[{index}]"),
        _ => "0".into(),
    }
}

/// The C type of a callback parameter, from the prototype.
fn callback_type(function: &Function, index: usize) -> String {
    let text = function.c_params.split(',').nth(index).unwrap_or_default().trim();
    let ty = text.rsplit_once(' ').map_or(text, |(ty, _)| ty).trim_end_matches('*').trim();
    format!("{} *", ty.trim_start_matches("MPI_"))
}

fn keyval(parameter: &str) -> &'static str {
    match parameter {
        "type_keyval" => "type_keyval",
        "win_keyval" => "win_keyval",
        _ => "comm_keyval",
    }
}

fn right_number(function: &str, parameter: &str) -> &'static str {
    match parameter {
        "comm_keyval" | "type_keyval" | "win_keyval" | "keyval" => keyval(parameter),
        "dest" | "source" => "MPI_PROC_NULL",
        "tag" | "sendtag" | "recvtag" => "7",
        "errorcode" | "error" | "errorclass" => "MPI_SUCCESS",
        "amode" => "MPI_MODE_RDWR",
        "whence" => "MPI_SEEK_SET",
        "lock_type" => "MPI_LOCK_SHARED",
        "order" => "MPI_ORDER_C",
        "typeclass" => "MPI_TYPECLASS_INTEGER",
        "size" if function == "MPI_Type_match_size" => "4",
        "size" if function == "MPI_Type_create_darray" => "1",
        "split_type" => "MPI_COMM_TYPE_SHARED",
        "p" | "r" => "4",
        "required" => "MPI_THREAD_SINGLE",
        "valuelen" | "outsize" | "insize" | "nnodes" | "extent" | "size" | "buflen" => "1",
        "maxprocs" => "1",
        _ if is_count(parameter) => "1",
        "target_count" | "result_count" | "blocklength" | "stride" | "disp_unit" => "1",
        _ => "0",
    }
}

fn is_count(parameter: &str) -> bool {
    parameter.ends_with("count") && !parameter.starts_with("out")
        || matches!(parameter, "n" | "ndims" | "maxdims" | "partitions" | "length" | "maxindegree")
        || matches!(parameter, "maxoutdegree" | "indegree" | "outdegree" | "maxneighbors" | "maxindex")
        || matches!(parameter, "maxedges")
}

fn right_array(function: &str, param: &Param) -> String {
    let ty = param.rust_type.trim_start_matches("*const ").trim_start_matches("c_");
    let value = match param.name.as_str() {
        name if name.ends_with("counts") || name.ends_with("blocklengths") || name.ends_with("sizes") => "1",
        "array_of_maxprocs" | "dims" | "degrees" | "periods" | "array_of_gsizes" => "1",
        "array_of_distribs" => "MPI_DISTRIBUTE_BLOCK",
        "array_of_dargs" => "MPI_DISTRIBUTE_DFLT_DARG",
        "indx" if function != "MPI_Graph_get" => "1",
        _ => "0",
    };
    format!("({ty}[]){{{value}, {value}}}")
}

fn right_string(parameter: &str) -> &'static str {
    match parameter {
        "datarep" => "\"native\"",
        "pset_name" => "\"mpi://SELF\"",
        "filename" => "file_name",
        _ => "\"key\"",
    }
}

/// The wrong values of parameter `index`. None where every value is allowed, or where a wrong one cannot be
/// told.
pub(super) fn wrongs(function: &Function, index: usize) -> Vec<Wrong> {
    let param = &function.params[index];
    let ty = param.rust_type.as_str();
    if let Some(handle) = handle_of(ty) {
        return wrong_handles(function, handle);
    }
    if let Some(handle) = ty.strip_prefix("*mut ").and_then(handle_of).filter(|_| takes_in(function, param)) {
        let mut all = wrong_handles(function, handle);
        for wrong in &mut all {
            wrong.value = format!("&({}){{{}}}", handle.ty, wrong.value);
        }
        all.push(wrong("NULL", &["MPI_ERR_ARG", handle.class]));
        return all;
    }
    if let Some(handle) = ty.strip_prefix("*const ").and_then(handle_of) {
        let mut all = wrong_handles(function, handle);
        for wrong in &mut all {
            wrong.value = array(function, handle, &wrong.value);
        }
        return all;
    }
    match ty {
        "c_int" | "MPI_Count" | "MPI_Aint" | "MPI_Offset" => wrong_numbers(function, param),
        "*const c_char" => vec![wrong("NULL", &string_classes(&param.name))],
        "*mut c_int" if stem(function).ends_with("_free_keyval") => vec![
            wrong("&(int){MPI_KEYVAL_INVALID}", &["MPI_ERR_KEYVAL"]),
            wrong("&(int){MPI_HOST}", &["MPI_ERR_KEYVAL"]),
            wrong("NULL", &["MPI_ERR_ARG", "MPI_ERR_KEYVAL"]),
        ],
        _ if is_result(function, param) => vec![wrong("NULL", &["MPI_ERR_ARG"])],
        _ => Vec::new(),
    }
}

fn string_classes(parameter: &str) -> Vec<&'static str> {
    let mut classes = vec!["MPI_ERR_ARG"];
    classes.extend(match parameter {
        "key" => Some("MPI_ERR_INFO_KEY"),
        "value" => Some("MPI_ERR_INFO_VALUE"),
        "datarep" => Some("MPI_ERR_UNSUPPORTED_DATAREP"),
        "filename" => Some("MPI_ERR_BAD_FILE"),
        "port_name" => Some("MPI_ERR_PORT"),
        "service_name" => Some("MPI_ERR_SERVICE"),
        _ => None,
    });
    classes
}

/// Where a value is returned that nobody may decline.
fn is_result(function: &Function, param: &Param) -> bool {
    let ty = param.rust_type.as_str();
    let plain = ["*mut c_int", "*mut MPI_Count", "*mut MPI_Aint", "*mut MPI_Offset"].contains(&ty);
    let array = function.c_params.contains(&format!("{}[]", param.name));
    let handle = ty.strip_prefix("*mut ").is_some_and(|ty| handle_of(ty).is_some());
    (plain || handle) && !array && function.chapter != "tool" && param.name != "array_of_errcodes"
}

fn wrong_handles(function: &Function, handle: &Handle) -> Vec<Wrong> {
    let name = stem(function);
    let class: &'static str = handle.class;
    let mut all = vec![wrong(&format!("GARBAGE({})", handle.ty), &[class]), wrong(handle.freed, &[class])];
    if !null_is_allowed(name, handle.ty) {
        all.push(wrong(handle.null, &[class]));
    }
    let moves =
        ["p2p", "collective", "neighbor", "rma", "file", "partitioned"].contains(&function.chapter.as_str());
    let queried = name.ends_with("_extent") || name.contains("set_view");
    if handle.ty == "MPI_Datatype" && moves && !queried {
        all.push(wrong("uncommitted", &[class]));
    }
    all
}

fn null_is_allowed(name: &str, ty: &str) -> bool {
    match ty {
        "MPI_Info" => !name.starts_with("MPI_Info"),
        "MPI_Request" => {
            name.contains("Wait")
                || name.contains("Test")
                || name.starts_with("MPI_Request_get_status")
                || name == "MPI_Parrived"
        }
        "MPI_Comm" | "MPI_Datatype" | "MPI_Win" => name.ends_with("_get_name"),
        "MPI_File" => {
            matches!(name, "MPI_File_set_errhandler" | "MPI_File_get_errhandler" | "MPI_File_call_errhandler")
        }
        _ => false,
    }
}

fn wrong_numbers(function: &Function, param: &Param) -> Vec<Wrong> {
    let name = stem(function);
    let parameter = param.name.as_str();
    let rank: &[&'static str] = &["MPI_ERR_RANK"];
    let root: &[&'static str] = &["MPI_ERR_ROOT", "MPI_ERR_RANK"];
    let count: &[&'static str] = &["MPI_ERR_COUNT", "MPI_ERR_ARG", "MPI_ERR_DIMS", "MPI_ERR_SIZE"];
    match parameter {
        "dest" | "target_rank" | "local_leader" => vec![wrong("5", rank), wrong("-77", rank)],
        "source" if function.chapter == "p2p" => vec![wrong("5", rank), wrong("-77", rank)],
        "rank" if name.starts_with("MPI_Win_") || function.chapter == "topology" => {
            vec![wrong("5", rank), wrong("-77", rank)]
        }
        "root" => vec![wrong("5", root), wrong("-77", root)],
        "tag" | "sendtag" | "recvtag" if function.chapter != "status" => vec![wrong("-77", &["MPI_ERR_TAG"])],
        "comm_keyval" | "type_keyval" | "win_keyval" | "keyval" => {
            vec![wrong("MPI_KEYVAL_INVALID", &["MPI_ERR_KEYVAL"]), wrong("123456", &["MPI_ERR_KEYVAL"])]
        }
        "amode" => {
            vec![wrong("0", &["MPI_ERR_AMODE"]), wrong("MPI_MODE_RDWR | MPI_MODE_RDONLY", &["MPI_ERR_AMODE"])]
        }
        "whence" => vec![wrong("99", &["MPI_ERR_ARG"])],
        "lock_type" => vec![wrong("99", &["MPI_ERR_LOCKTYPE"])],
        "order" => vec![wrong("99", &["MPI_ERR_ARG"])],
        "typeclass" => vec![wrong("99", &["MPI_ERR_ARG"])],
        "split_type" => vec![wrong("99", &["MPI_ERR_ARG"])],
        "errorclass" => vec![wrong("MPI_ERR_LASTCODE + 77", &["MPI_ERR_ARG"])],
        "disp_unit" => {
            vec![wrong("0", &["MPI_ERR_ARG", "MPI_ERR_DISP"]), wrong("-1", &["MPI_ERR_ARG", "MPI_ERR_DISP"])]
        }
        "size" if function.chapter != "buffered" => vec![wrong("-1", count)],
        "offset" if name.contains("_at") => vec![wrong("-1", &["MPI_ERR_ARG"])],
        _ if is_count(parameter) || parameter.ends_with("_count") || parameter == "blocklength" => {
            vec![wrong("-1", count)]
        }
        _ => Vec::new(),
    }
}
