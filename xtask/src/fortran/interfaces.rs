//! The declarations of arguments in Fortran: those of module `mpi` and those of `mpi_f08`.

use super::prototype::{Argument, Kind, Number, Procedure};

/// Whose declarations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// Module `mpi`: handles are INTEGERs.
    Old,
    /// Module `mpi_f08`.
    New,
}

/// The columns after which a line of free-form source goes on in the next.
const COLUMNS: usize = 110;

/// A line of free form, continued where it is long. It is broken after commas.
pub(super) fn line(out: &mut String, text: &str) {
    let indent = text.len() - text.trim_start().len();
    let mut column = 0;
    for piece in text.split_inclusive(", ") {
        if column + piece.len() > COLUMNS {
            out.truncate(out.trim_end().len());
            out.push_str(&format!(" &\n{:1$}", "", indent + 4));
            column = indent + 4;
        }
        out.push_str(piece);
        column += piece.len();
    }
    out.push('\n');
}

/// The Fortran type of a number.
fn number(number: Number) -> &'static str {
    match number {
        Number::Int => "integer",
        Number::Aint => "integer(kind=MPI_ADDRESS_KIND)",
        Number::Offset => "integer(kind=MPI_OFFSET_KIND)",
        Number::Count => "integer(kind=MPI_COUNT_KIND)",
    }
}

/// Numbers that C reads before it writes them.
fn is_read_first(name: &str) -> bool {
    matches!(name, "position" | "buflen" | "pset_len")
}

impl Procedure {
    /// Whether it gives its buffers back before they may be used again.
    pub(super) fn is_asynchronous(&self) -> bool {
        let name = self.name.as_str();
        let mut letters = name.chars();
        let nonblocking = letters.next() == Some('I')
            && letters.next().is_some_and(char::is_lowercase)
            && !name.starts_with("Info")
            && !name.starts_with("Inter")
            && !name.starts_with("Init")
            && !name.starts_with("Is_");
        let is_rma = self.arguments.iter().any(|a| a.kind == Kind::Handle("MPI_Win".to_owned()));
        nonblocking
            || is_rma
            || name.contains("_init")
            || name.contains("_begin")
            || name.contains("_end")
            || name.starts_with("File_i")
            || name.starts_with("Win_")
            || name.contains("attach_buffer")
            || name.starts_with("Buffer_")
            || name == "Free_mem"
            || name == "Get_address"
    }

    /// Whether the old interfaces have it. They have no large counts.
    pub(super) fn is_old(&self) -> bool {
        !self.name.ends_with("_c")
    }

    /// Whether `mpi_f08` has it. It has no functions of MPI-1 that MPI-2 replaced.
    pub(super) fn is_new(&self) -> bool {
        !matches!(
            self.name.as_str(),
            "Attr_delete" | "Attr_get" | "Attr_put" | "Keyval_create" | "Keyval_free"
        )
    }

    pub(super) fn has_choice(&self) -> bool {
        self.arguments.iter().any(|argument| matches!(argument.kind, Kind::Choice { .. }))
    }

    /// All dummies, `ierror` among them.
    pub(super) fn dummies(&self) -> String {
        let mut names: Vec<&str> = self.arguments.iter().map(|argument| argument.name.as_str()).collect();
        if self.has_ierror() {
            names.push("ierror");
        }
        names.join(", ")
    }

    pub(super) fn has_ierror(&self) -> bool {
        self.result.is_none() && self.name != "Pcontrol"
    }

    /// The declarations of all dummies, a line each.
    pub(super) fn declarations(&self, style: Style) -> Vec<String> {
        let mut lines: Vec<String> = self.arguments.iter().flat_map(|a| self.declaration(a, style)).collect();
        if self.has_ierror() {
            let optional = if style == Style::New { ", optional" } else { "" };
            lines.push(format!("integer{optional}, intent(out) :: ierror"));
        }
        lines
    }

    fn declaration(&self, argument: &Argument, style: Style) -> Vec<String> {
        let x = &argument.name;
        let is_mpi1 = matches!(self.name.as_str(), "Attr_get" | "Attr_put" | "Keyval_create");
        let attribute = if is_mpi1 { Number::Int } else { Number::Aint };
        let handle = |of: &str| match style {
            Style::Old => "integer".to_owned(),
            Style::New => format!("type({of})"),
        };
        let intent = |constant: bool| if constant { "in" } else { "inout" };
        let text = match &argument.kind {
            Kind::Choice { constant } => return self.choice(x, *constant, style),
            // The address of what is detached means nothing to the old interfaces.
            Kind::Address if style == Style::Old && x == "buffer_addr" => {
                return self.choice(x, false, style);
            }
            Kind::Address => match style {
                Style::Old => format!("{}, intent(out) :: {x}", number(Number::Aint)),
                Style::New => format!("type(c_ptr), intent(out) :: {x}"),
            },
            Kind::Value(of) => format!("{}, intent(in) :: {x}", number(*of)),
            Kind::Pointer(of) => {
                let intent = if is_read_first(x) { "inout" } else { "out" };
                format!("{}, intent({intent}) :: {x}", number(*of))
            }
            Kind::Array { number: of, constant } => {
                format!("{}, intent({}) :: {x}(*)", number(*of), intent(*constant))
            }
            Kind::Logical => format!("logical, intent(in) :: {x}"),
            Kind::LogicalPointer => format!("logical, intent(out) :: {x}"),
            Kind::LogicalArray { constant } => format!("logical, intent({}) :: {x}(*)", intent(*constant)),
            Kind::Index => format!("integer, intent(out) :: {x}"),
            Kind::Indices => format!("integer, intent(inout) :: {x}(*)"),
            Kind::Weights { constant: true } => format!("integer, intent(in) :: {x}(*)"),
            Kind::Weights { constant: false } | Kind::Codes => format!("integer :: {x}(*)"),
            Kind::Ranges => format!("integer, intent(in) :: {x}(3,*)"),
            Kind::Handle(of) => format!("{}, intent(in) :: {x}", handle(of)),
            Kind::HandlePointer { of, updated } => {
                format!("{}, intent({}) :: {x}", handle(of), if *updated { "inout" } else { "out" })
            }
            Kind::HandleArray { of, constant, .. } => {
                format!("{}, intent({}) :: {x}(*)", handle(of), intent(*constant))
            }
            Kind::Status { constant } => {
                let intent = if *constant { ", intent(in)" } else { "" };
                match style {
                    Style::Old => format!("integer{intent} :: {x}(MPI_STATUS_SIZE)"),
                    Style::New => format!("type(MPI_Status){intent} :: {x}"),
                }
            }
            Kind::Statuses => match style {
                Style::Old => format!("integer :: {x}(MPI_STATUS_SIZE,*)"),
                Style::New => format!("type(MPI_Status) :: {x}(*)"),
            },
            Kind::TextIn { .. } => format!("character(len=*), intent(in) :: {x}"),
            Kind::TextOut { .. } => format!("character(len=*), intent(inout) :: {x}"),
            Kind::Procedure(of) => match style {
                Style::Old => format!("external :: {x}"),
                Style::New => format!("procedure({of}) :: {x}"),
            },
            Kind::Attribute { written } => {
                let intent = if *written { "out" } else { "in" };
                format!("{}, intent({intent}) :: {x}", number(attribute))
            }
            Kind::ExtraState => format!("{}, intent(in) :: {x}", number(attribute)),
            Kind::Texts => format!("character(len=*), intent(in) :: {x}(*)"),
            Kind::TextLists => format!("character(len=*), intent(in) :: {x}(count,*)"),
        };
        vec![text]
    }

    fn choice(&self, x: &str, constant: bool, style: Style) -> Vec<String> {
        let intent = if constant { ", intent(in)" } else { "" };
        match style {
            Style::New => {
                let asynchronous = if self.is_asynchronous() { ", asynchronous" } else { "" };
                vec![format!("type(*), dimension(..){intent}{asynchronous} :: {x}")]
            }
            Style::Old => vec![
                format!("!GCC$ ATTRIBUTES NO_ARG_CHECK :: {x}"),
                format!("!DEC$ ATTRIBUTES NO_ARG_CHECK :: {x}"),
                format!("!DIR$ IGNORE_TKR {x}"),
                format!("!$PRAGMA IGNORE_TKR {x}"),
                format!("!IBM* IGNORE_TKR {x}"),
                format!("type(*), dimension(*){intent} :: {x}"),
            ],
        }
    }

    /// What tells generic procedures apart: the type and kind of every argument.
    pub(super) fn signature(&self) -> Vec<String> {
        let all =
            self.arguments.iter().map(|argument| match &argument.kind {
                Kind::Value(of) | Kind::Pointer(of) | Kind::Array { number: of, .. } => {
                    if *of == Number::Int { "int".to_owned() } else { "long".to_owned() }
                }
                Kind::Procedure(_) => "procedure".to_owned(),
                other => format!("{other:?}"),
            });
        all.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_goes_on_after_a_comma() {
        let mut out = String::new();
        let names = ["a_name_of_some_length"; 12].join(", ");
        line(&mut out, &format!("  subroutine x({names})"));
        assert!(out.lines().all(|line| line.len() <= COLUMNS + 2));
        let joined = out.replace(" &\n      ", " ");
        assert_eq!(joined, format!("  subroutine x({names})\n"));
    }
}
