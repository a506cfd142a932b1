//! Prints the C functions that Fortran programs call, `mpi_send_` and so on.
//!
//! The same text is compiled twice, see `fortran/c/binding.h`.

use super::prototype::{Argument, Kind, Number, Procedure};

const HEAD: &str = "\
/* Written by `cargo xtask` from crates/mpi/abi/functions.txt. SPDX-License-Identifier: MIT OR Apache-2.0 */
#include \"binding.h\"
";

/// The pieces of one C function.
#[derive(Default)]
pub(super) struct Body {
    /// Its parameters, `ierror` and the lengths of strings not among them.
    pub(super) parameters: Vec<String>,
    /// The names of the strings among them.
    pub(super) strings: Vec<String>,
    /// Declarations.
    pub(super) before: Vec<String>,
    /// Conditions under which there was memory for everything.
    pub(super) conditions: Vec<String>,
    /// Statements before the call.
    pub(super) prepare: Vec<String>,
    pub(super) call: Vec<String>,
    /// Statements after the call.
    pub(super) after: Vec<String>,
    /// Statements that give memory back.
    pub(super) release: Vec<String>,
}

/// All functions that are made by rule.
pub(super) fn print(procedures: &[Procedure]) -> String {
    let mut out = String::from(HEAD);
    for procedure in procedures.iter().filter(|p| !p.special) {
        out.push('\n');
        out.push_str(&function(procedure, ""));
        // Module `mpi` has a second specific procedure, which takes a pointer where the first takes an
        // address.
        if procedure.arguments.iter().any(|argument| argument.kind == Kind::Address) {
            out.push_str(&function(procedure, "_cptr"));
        }
    }
    out
}

fn function(procedure: &Procedure, suffix: &str) -> String {
    let mut body = Body::default();
    for argument in &procedure.arguments {
        body.add(argument);
    }
    let name = procedure.name.to_lowercase();
    body.print(&format!("F({name}{suffix})"), &format!("C({})", procedure.name))
}

/// The C type of a number.
pub(super) fn c_number(number: Number) -> &'static str {
    match number {
        Number::Int => "int",
        Number::Aint => "MPI_Aint",
        Number::Offset => "MPI_Offset",
        Number::Count => "MPI_Count",
    }
}

impl Body {
    fn plain(&mut self, parameter: String, call: String) {
        self.parameters.push(parameter);
        self.call.push(call);
    }

    /// Adds an argument by the rule of its kind.
    pub(super) fn add(&mut self, argument: &Argument) {
        let x = &argument.name;
        match &argument.kind {
            Kind::Choice { .. } => self.plain(format!("void *{x}"), format!("choice({x})")),
            Kind::Value(number) => self.plain(format!("const {} *{x}", c_number(*number)), format!("*{x}")),
            Kind::Pointer(number) => self.plain(format!("{} *{x}", c_number(*number)), x.clone()),
            Kind::Array { number, constant } => {
                let constant = if *constant { "const " } else { "" };
                self.plain(format!("{constant}{} *{x}", c_number(*number)), x.clone());
            }
            Kind::Logical => self.plain(format!("const int *{x}"), format!("*{x} != 0")),
            Kind::LogicalPointer | Kind::LogicalArray { .. } => self.plain(format!("int *{x}"), x.clone()),
            Kind::Index => self.index(x),
            Kind::Indices => self.indices(x),
            Kind::Weights { .. } => self.plain(format!("int *{x}"), format!("weights_of({x})")),
            Kind::Ranges => self.plain(format!("int (*{x})[3]"), x.clone()),
            Kind::Handle(of) => self.plain(format!("const int *{x}"), format!("to_{of}(*{x})")),
            Kind::HandlePointer { of, updated } => self.handle_pointer(x, of, *updated),
            Kind::HandleArray { of, length, constant, updated } => {
                self.handle_array(x, of, length, *constant, *updated);
            }
            Kind::Status { .. } => self.plain(format!("int *{x}"), format!("status_of({x})")),
            Kind::Statuses => self.plain(format!("int *{x}"), format!("statuses_of({x})")),
            Kind::TextIn { strip } => self.text_in(x, *strip),
            Kind::TextOut { most } => {
                self.plain(format!("char *{x}"), format!("c_{x}"));
                self.strings.push(x.clone());
                self.before.push(format!("char c_{x}[{most} + 1] = \"\";"));
                self.after.push(format!("if (code == MPI_SUCCESS) text_out({x}, length_{x}, c_{x});"));
            }
            Kind::Procedure(of) => self.plain(format!("procedure {x}"), format!("({of} *){x}")),
            Kind::Address => self.plain(format!("MPI_Aint *{x}"), x.clone()),
            Kind::Attribute { .. } | Kind::ExtraState | Kind::Texts | Kind::TextLists | Kind::Codes => {
                unreachable!("only functions that are not made by rule have `{x}`")
            }
        }
    }

    fn index(&mut self, x: &str) {
        self.plain(format!("int *{x}"), format!("&c_{x}"));
        self.before.push(format!("int c_{x} = MPI_UNDEFINED;"));
        self.after.push(format!("*{x} = c_{x} == MPI_UNDEFINED ? MPI_UNDEFINED : c_{x} + 1;"));
    }

    /// Some errors, too, come with indices.
    fn indices(&mut self, x: &str) {
        self.plain(format!("int *{x}"), x.to_owned());
        self.before.push("*outcount = MPI_UNDEFINED;".to_owned());
        self.after.push(format!("for (int i = 0; i < *outcount; i++) {x}[i]++;"));
    }

    fn handle_pointer(&mut self, x: &str, of: &str, updated: bool) {
        self.plain(format!("int *{x}"), format!("&c_{x}"));
        if updated {
            self.before.push(format!("{of} c_{x} = to_{of}(*{x});"));
            self.after.push(format!("*{x} = of_{of}(c_{x});"));
        } else {
            self.before.push(format!("{of} c_{x} = to_{of}(0);"));
            self.after.push(format!("if (code == MPI_SUCCESS) *{x} = of_{of}(c_{x});"));
        }
    }

    fn handle_array(&mut self, x: &str, of: &str, length: &str, constant: bool, updated: bool) {
        let parameter = if constant { "const int" } else { "int" };
        self.plain(format!("{parameter} *{x}"), format!("c_{x}"));
        self.before.push(format!("size_t length_{x} = {length};"));
        self.before.push(format!("{of} few_{x}[FEW];"));
        self.before.push(format!("{of} *c_{x} = room(few_{x}, sizeof few_{x}, length_{x} * sizeof({of}));"));
        self.conditions.push(format!("c_{x} != NULL"));
        let each = format!("for (size_t i = 0; i < length_{x}; i++)");
        if constant || updated {
            self.prepare.push(format!("{each} c_{x}[i] = to_{of}({x}[i]);"));
        } else {
            self.prepare.push(format!("{each} c_{x}[i] = to_{of}(0);"));
        }
        if updated && !constant {
            self.after.push(format!("{each} {x}[i] = of_{of}(c_{x}[i]);"));
        } else if !constant {
            let set = format!("if (c_{x}[i] != to_{of}(0)) {x}[i] = of_{of}(c_{x}[i]);");
            self.after.push(format!("{each} {set}"));
        }
        self.release.push(format!("leave(few_{x}, c_{x});"));
    }

    fn text_in(&mut self, x: &str, strip: bool) {
        self.plain(format!("const char *{x}"), format!("c_{x}"));
        self.strings.push(x.to_owned());
        self.before.push(format!("char few_{x}[FEW_CHARS];"));
        let strip = i32::from(strip);
        self.before
            .push(format!("char *c_{x} = text_in(few_{x}, sizeof few_{x}, {x}, length_{x}, {strip});"));
        self.conditions.push(format!("c_{x} != NULL"));
        self.release.push(format!("leave(few_{x}, c_{x});"));
    }

    /// The text of the function `name`, which calls `callee`.
    pub(super) fn print(&self, name: &str, callee: &str) -> String {
        let mut parameters = self.parameters.clone();
        parameters.push("int *ierror".to_owned());
        parameters.extend(self.strings.iter().map(|x| format!("size_t length_{x}")));
        let parameters = parameters.join(", ");
        let call = format!("{callee}({})", self.call.join(", "));
        let declaration = format!("void {name}({parameters});\nvoid {name}({parameters})\n{{\n");
        let simple = self.before.is_empty() && self.after.is_empty() && self.prepare.is_empty();
        if simple && self.release.is_empty() {
            return format!("{declaration}    *ierror = {call};\n}}\n");
        }
        let mut out = declaration;
        let mut line = |text: &str| out.push_str(&format!("    {text}\n"));
        self.before.iter().for_each(|text| line(text));
        if self.conditions.is_empty() {
            self.prepare.iter().for_each(|text| line(text));
            line(&format!("int code = {call};"));
            self.after.iter().for_each(|text| line(text));
        } else {
            line("int code = MPI_ERR_NO_MEM;");
            line(&format!("if ({}) {{", self.conditions.join(" && ")));
            self.prepare.iter().for_each(|text| line(&format!("    {text}")));
            line(&format!("    code = {call};"));
            self.after.iter().for_each(|text| line(&format!("    {text}")));
            line("}");
        }
        self.release.iter().for_each(|text| line(text));
        line("*ierror = code;");
        out.push_str("}\n");
        out
    }
}
