//! Prints the module `mpi` and the modules of `mpi_f08`.

use std::collections::BTreeMap;

use super::constants::{self, Constant, KINDS, PREDEFINED, SENTINELS, Sentinel, Type};
use super::interfaces::{Style, line};
use super::prototype::{Kind, Procedure};

const HEAD: &str =
    "! Written by `cargo xtask` from crates/mpi/abi. SPDX-License-Identifier: MIT OR Apache-2.0\n";

/// Procedures of module `mpi` whose result may also be a `type(c_ptr)`.
const POINTERS: &[&str] = &["Alloc_mem", "Win_allocate", "Win_allocate_shared", "Win_shared_query"];

/// The procedures that are functions, in both modules: they have no `ierror` and need no wrapper.
const FUNCTIONS: &str = "
    double precision function @MPI_Wtime()
    end function
    double precision function @MPI_Wtick()
    end function
    integer(kind=MPI_ADDRESS_KIND) function @MPI_Aint_add(base, disp)
      import :: MPI_ADDRESS_KIND
      integer(kind=MPI_ADDRESS_KIND), intent(in) :: base, disp
    end function
    integer(kind=MPI_ADDRESS_KIND) function @MPI_Aint_diff(addr1, addr2)
      import :: MPI_ADDRESS_KIND
      integer(kind=MPI_ADDRESS_KIND), intent(in) :: addr1, addr2
    end function
";

/// `MPI_Sizeof` takes anything: the descriptor has the size.
const SIZEOF: &str = "
  interface MPI_Sizeof
    subroutine ayatori_sizeof(x, size, ierror) bind(C, name=\"ayatori_sizeof\")
      import :: c_int
      type(*), dimension(..), intent(in) :: x
      integer(c_int), intent(out) :: size
      integer(c_int), optional, intent(out) :: ierror
    end subroutine
  end interface
";

/// `mpi.f90`.
pub(super) fn mpi(procedures: &[Procedure], constants: &[Constant]) -> String {
    let mut out = String::from(HEAD);
    out.push_str("module mpi\n  use mpi_types\n  use, intrinsic :: iso_c_binding, only: c_int, c_ptr\n");
    out.push_str("  implicit none\n  public\n  private :: c_int, c_ptr\n");
    let mut declarations = String::new();
    constants::declarations(&mut declarations, constants);
    // The kinds come with the types.
    for text in
        declarations.lines().filter(|text| !KINDS.iter().any(|kind| text.trim() == format!("INTEGER {kind}")))
    {
        if !KINDS.iter().any(|kind| text.contains(&format!("({kind}="))) {
            out.push_str(&format!("{text}\n"));
        }
    }
    for name in PREDEFINED {
        out.push_str(&format!("  external :: {name}\n"));
    }
    out.push_str(SIZEOF);
    for prefix in ["", "P"] {
        out.push_str("  interface");
        out.push_str(&FUNCTIONS.replace('@', prefix));
        for procedure in procedures.iter().filter(|p| p.is_old() && p.result.is_none()) {
            if !POINTERS.contains(&procedure.name.as_str()) {
                old(&mut out, procedure, &format!("{prefix}MPI_{}", procedure.name));
            }
        }
        out.push_str("  end interface\n");
        for procedure in procedures.iter().filter(|p| POINTERS.contains(&p.name.as_str())) {
            with_pointer(&mut out, procedure, prefix);
        }
    }
    out.push_str("end module\n");
    out
}

fn old(out: &mut String, procedure: &Procedure, name: &str) {
    line(out, &format!("    subroutine {name}({})", procedure.dummies()));
    out.push_str("      import\n");
    for text in procedure.declarations(Style::Old) {
        out.push_str(&format!("      {text}\n"));
    }
    out.push_str("    end subroutine\n");
}

/// A generic procedure, of which one specific takes an address as an INTEGER, the other as a pointer.
fn with_pointer(out: &mut String, procedure: &Procedure, prefix: &str) {
    let name = format!("{prefix}MPI_{}", procedure.name);
    out.push_str(&format!("  interface {name}\n"));
    old(out, procedure, &name);
    line(out, &format!("    subroutine {name}_cptr({})", procedure.dummies()));
    out.push_str("      import\n");
    for text in procedure.declarations(Style::Old) {
        match text.strip_suffix(" :: baseptr") {
            Some(_) => out.push_str("      type(c_ptr), intent(out) :: baseptr\n"),
            None => out.push_str(&format!("      {text}\n")),
        }
    }
    out.push_str("    end subroutine\n  end interface\n");
}

/// The handle types, from the constants.
fn handles(constants: &[Constant]) -> Vec<&str> {
    let mut all: Vec<&str> = Vec::new();
    for constant in constants {
        if let Type::Handle(of) = &constant.of
            && !all.contains(&of.as_str())
        {
            all.push(of);
        }
    }
    all
}

/// `mpi_types.f90`: kinds, types of handles and of a status, and what is done with them; for both modules.
pub(super) fn types(constants: &[Constant]) -> String {
    let mut out = String::from(HEAD);
    out.push_str(
        "module mpi_types\n  use, intrinsic :: iso_c_binding, only: c_int\n  implicit none\n  public\n",
    );
    out.push_str("  private :: c_int\n");
    for kind in KINDS {
        out.push_str(&format!("  integer, parameter :: {kind} = selected_int_kind(18)\n"));
    }
    out.push_str(
        "  type, bind(C) :: MPI_Status\n    integer(c_int) :: MPI_SOURCE\n    integer(c_int) :: MPI_TAG\n",
    );
    out.push_str("    integer(c_int) :: MPI_ERROR\n    integer(c_int) :: MPI_internal(5)\n  end type\n");
    let handles = handles(constants);
    for of in &handles {
        out.push_str(&format!("  type, bind(C) :: {of}\n    integer(c_int) :: MPI_VAL\n  end type\n"));
    }
    for (operator, name) in [("==", "equal"), ("/=", "differ")] {
        out.push_str(&format!("  interface operator({operator})\n"));
        for of in &handles {
            out.push_str(&format!("    module procedure {name}_{of}\n"));
        }
        out.push_str("  end interface\n");
    }
    out.push_str("contains\n");
    for (operator, name) in [("==", "equal"), ("/=", "differ")] {
        for of in &handles {
            out.push_str(&format!("  elemental logical function {name}_{of}(a, b)\n"));
            out.push_str(&format!("    type({of}), intent(in) :: a, b\n"));
            out.push_str(&format!("    {name}_{of} = a%MPI_VAL {operator} b%MPI_VAL\n  end function\n"));
        }
    }
    for (name, body) in STATUS_CONVERSIONS {
        out.push_str(&format!(
            "  subroutine {name}\n{body}    if (present(ierror)) ierror = 0\n  end subroutine\n"
        ));
    }
    out.push_str("end module\n");
    out
}

const STATUS_CONVERSIONS: &[(&str, &str)] = &[
    (
        "MPI_Status_f2f08(f_status, f08_status, ierror)",
        "\
    integer, intent(in) :: f_status(8)
    type(MPI_Status), intent(out) :: f08_status
    integer, optional, intent(out) :: ierror
    f08_status = MPI_Status(f_status(1), f_status(2), f_status(3), f_status(4:8))
",
    ),
    (
        "MPI_Status_f082f(f08_status, f_status, ierror)",
        "\
    type(MPI_Status), intent(in) :: f08_status
    integer, intent(out) :: f_status(8)
    integer, optional, intent(out) :: ierror
    f_status(1:3) = [f08_status%MPI_SOURCE, f08_status%MPI_TAG, f08_status%MPI_ERROR]
    f_status(4:8) = f08_status%MPI_internal
",
    ),
];

/// `mpi_f08_types.f90`: constants and sentinels of `mpi_f08`.
pub(super) fn f08_types(constants: &[Constant]) -> String {
    let mut out = String::from(HEAD);
    out.push_str("module mpi_f08_types\n  use mpi_types\n");
    out.push_str("  use, intrinsic :: iso_c_binding, only: c_int, c_char\n  implicit none\n  public\n");
    out.push_str("  private :: c_int, c_char\n");
    for Constant { name, value, of } in constants {
        let (ty, value) = match of {
            Type::Integer => ("integer".to_owned(), value.to_string()),
            Type::Offset => ("integer(kind=MPI_OFFSET_KIND)".to_owned(), value.to_string()),
            Type::Handle(of) => (format!("type({of})"), format!("{of}({value})")),
        };
        out.push_str(&format!("  {ty}, parameter :: {name} = {value}\n"));
    }
    out.push_str("  logical, parameter :: MPI_SUBARRAYS_SUPPORTED = .true.\n");
    out.push_str("  logical, parameter :: MPI_ASYNC_PROTECTS_NONBLOCKING = .true.\n");
    for Sentinel { name, common, new, new_shape, .. } in SENTINELS {
        let new = new.replace("(c_char)", "(kind=c_char)");
        out.push_str(&format!("  {new}, bind(C, name=\"{common}_\"), target :: {name}{new_shape}\n"));
    }
    out.push_str("end module\n");
    out
}

/// The predefined copy and delete functions of `mpi_f08`, with the abstract interface each has.
fn predefined(out: &mut String) {
    for (kind, handle) in [("COMM", "MPI_Comm"), ("TYPE", "MPI_Datatype"), ("WIN", "MPI_Win")] {
        let aint = "integer(kind=MPI_ADDRESS_KIND)";
        for copy in ["NULL_COPY_FN", "DUP_FN"] {
            let dummies = "object, keyval, extra_state, attribute_val_in, attribute_val_out, flag, ierror";
            line(out, &format!("    subroutine MPI_{kind}_{copy}({dummies})"));
            out.push_str(&format!(
                "      import\n      type({handle}) :: object\n      integer :: keyval, ierror\n"
            ));
            out.push_str(&format!("      {aint} :: extra_state, attribute_val_in, attribute_val_out\n"));
            out.push_str("      logical :: flag\n    end subroutine\n");
        }
        out.push_str(&format!(
            "    subroutine MPI_{kind}_NULL_DELETE_FN(object, keyval, value, extra_state, ierror)\n"
        ));
        out.push_str(&format!(
            "      import\n      type({handle}) :: object\n      integer :: keyval, ierror\n"
        ));
        out.push_str(&format!("      {aint} :: value, extra_state\n    end subroutine\n"));
    }
    for (name, count) in [("", "integer"), ("_C", "integer(kind=MPI_COUNT_KIND)")] {
        let dummies = "userbuf, datatype, count, filebuf, position, extra_state, ierror";
        out.push_str(&format!("    subroutine MPI_CONVERSION_FN_NULL{name}({dummies})\n      import\n"));
        out.push_str("      type(c_ptr), value :: userbuf, filebuf\n      type(MPI_Datatype) :: datatype\n");
        out.push_str(&format!("      {count} :: count\n      integer :: ierror\n"));
        out.push_str("      integer(kind=MPI_OFFSET_KIND) :: position\n");
        out.push_str("      integer(kind=MPI_ADDRESS_KIND) :: extra_state\n    end subroutine\n");
    }
}

/// The name of the external procedure behind a generic of `mpi_f08` (MPI-5.0 §19.1.5).
fn specific(prefix: &str, procedure: &Procedure) -> String {
    let suffix = if procedure.has_choice() { "f08ts" } else { "f08" };
    format!("{prefix}MPI_{}_{suffix}", procedure.name)
}

/// `mpi_f08.f90`: the generic interfaces. A form with large counts is a specific of the same generic where
/// its arguments tell it apart, else has its own name.
pub(super) fn f08(procedures: &[Procedure]) -> String {
    let mut out = String::from(HEAD);
    out.push_str("module mpi_f08\n  use mpi_f08_types\n  use mpi_f08_callbacks\n");
    out.push_str("  use, intrinsic :: iso_c_binding, only: c_int, c_ptr\n  implicit none\n  public\n");
    out.push_str("  private :: c_int, c_ptr\n");
    out.push_str(SIZEOF);
    out.push_str("  interface\n");
    predefined(&mut out);
    out.push_str("  end interface\n");
    let signatures: BTreeMap<&str, Vec<String>> =
        procedures.iter().map(|p| (p.name.as_str(), p.signature())).collect();
    for prefix in ["", "P"] {
        out.push_str("  interface");
        out.push_str(&FUNCTIONS.replace('@', prefix));
        out.push_str("  end interface\n");
        for procedure in procedures.iter().filter(|p| p.is_new() && p.result.is_none()) {
            let small = procedure.name.strip_suffix("_c");
            let is_apart = small.is_some_and(|small| {
                signatures.get(small).is_some_and(|signature| *signature != procedure.signature())
            });
            let generic = if is_apart { small.unwrap_or_default() } else { &procedure.name };
            out.push_str(&format!("  interface {prefix}MPI_{generic}\n"));
            line(
                &mut out,
                &format!("    subroutine {}({})", specific(prefix, procedure), procedure.dummies()),
            );
            out.push_str("      import\n");
            for text in procedure.declarations(Style::New) {
                out.push_str(&format!("      {text}\n"));
            }
            out.push_str("    end subroutine\n  end interface\n");
        }
    }
    out.push_str("end module\n");
    out
}

/// `f08_procedures.f90`: what is behind the generics. Each calls the C side, which takes everything by
/// address (`type(*)`), strings with their lengths, buffers as descriptors.
pub(super) fn f08_procedures(procedures: &[Procedure]) -> String {
    let mut out = String::from(HEAD);
    for prefix in ["", "P"] {
        for procedure in procedures.iter().filter(|p| p.is_new() && p.result.is_none()) {
            f08_procedure(&mut out, procedure, prefix);
        }
    }
    out
}

/// The C function behind a procedure of `mpi_f08`.
fn symbol(prefix: &str, procedure: &Procedure) -> String {
    let is_detach = procedure.name.contains("etach_buffer") || procedure.name == "Buffer_detach";
    let suffix = match procedure.name.as_str() {
        _ if procedure.has_choice() => "_cdesc",
        name if is_detach && !name.ends_with("_c") => "_cptr",
        _ => "",
    };
    format!("{}mpi_{}{suffix}_", prefix.to_lowercase(), procedure.name.to_lowercase())
}

fn f08_procedure(out: &mut String, procedure: &Procedure, prefix: &str) {
    let name = specific(prefix, procedure);
    line(out, &format!("subroutine {name}({})", procedure.dummies()));
    out.push_str("  use mpi_f08_types\n  use mpi_f08_callbacks\n");
    out.push_str(
        "  use, intrinsic :: iso_c_binding, only: c_int, c_ptr, c_char, c_size_t, c_funptr, c_funloc\n",
    );
    out.push_str("  implicit none\n");
    for text in procedure.declarations(Style::New) {
        out.push_str(&format!("  {text}\n"));
    }
    let strings = procedure.arguments.iter().filter(|a| {
        matches!(a.kind, Kind::TextIn { .. } | Kind::TextOut { .. } | Kind::Texts | Kind::TextLists)
    });
    let strings: Vec<&str> = strings.map(|a| a.name.as_str()).collect();
    let lengths: String = strings.iter().map(|x| format!(", length_{x}")).collect();
    let dummies = procedure.dummies();
    out.push_str("  interface\n");
    line(out, &format!("    subroutine to_c({dummies}{lengths}) &"));
    out.push_str(&format!("        bind(C, name=\"{}\")\n", symbol(prefix, procedure)));
    out.push_str("      import :: c_int, c_char, c_size_t, c_funptr\n");
    for argument in &procedure.arguments {
        let x = &argument.name;
        let text = match &argument.kind {
            Kind::Choice { .. } if procedure.is_asynchronous() => "type(*), dimension(..), asynchronous",
            Kind::Choice { .. } => "type(*), dimension(..)",
            Kind::Procedure(_) => "type(c_funptr), value",
            Kind::TextIn { .. } | Kind::TextOut { .. } | Kind::Texts | Kind::TextLists => {
                "character(kind=c_char), dimension(*)"
            }
            Kind::Array { .. }
            | Kind::LogicalArray { .. }
            | Kind::Indices
            | Kind::Weights { .. }
            | Kind::Ranges
            | Kind::HandleArray { .. }
            | Kind::Statuses
            | Kind::Codes => "type(*), dimension(*)",
            _ => "type(*)",
        };
        out.push_str(&format!("      {text} :: {x}\n"));
    }
    if procedure.has_ierror() {
        out.push_str("      integer(c_int) :: ierror\n");
    }
    for x in &strings {
        out.push_str(&format!("      integer(c_size_t), value :: length_{x}\n"));
    }
    out.push_str("    end subroutine\n  end interface\n");
    let mut actuals: Vec<String> = Vec::new();
    for argument in &procedure.arguments {
        let x = &argument.name;
        actuals.push(if matches!(argument.kind, Kind::Procedure(_)) {
            format!("c_funloc({x})")
        } else {
            x.clone()
        });
    }
    if procedure.has_ierror() {
        out.push_str("  integer(c_int) :: code\n");
        actuals.push("code".to_owned());
    }
    actuals.extend(strings.iter().map(|x| format!("len({x}, kind=c_size_t)")));
    line(out, &format!("  call to_c({})", actuals.join(", ")));
    if procedure.has_ierror() {
        out.push_str("  if (present(ierror)) ierror = code\n");
    }
    out.push_str("end subroutine\n");
}
