//! Prints the functions of a translator: each calls the library's, with its arguments translated.

use std::fmt::Write as _;

use anyhow::{Context, Result};

use super::constants::{Abi, HANDLES};
use super::kind::{Argument, Kind, NOT_OF_OPENMPI, REFUSED, Way, arguments, is_by_rule};
use crate::abi::table::Function;

const HEAD: &str = "\
/* Written by `cargo xtask translate`. SPDX-License-Identifier: MIT OR Apache-2.0 */
#include \"translate.h\"
";

/// The C parameters of a function as the library has them: handles are integers.
fn library_params(function: &Function) -> String {
    let mut text = function.c_params.clone();
    for of in HANDLES.iter().chain(&["MPI_Status"]) {
        let to = if *of == "MPI_Status" { "a_status" } else { "a_handle" };
        text = replace_word(&text, of, to);
    }
    text
}

fn replace_word(text: &str, word: &str, by: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(word) {
        let end = rest[at + word.len()..].chars().next();
        let is_word = !end.is_some_and(|c| c.is_alphanumeric() || c == '_');
        out.push_str(&rest[..at]);
        out.push_str(if is_word { by } else { word });
        rest = &rest[at + word.len()..];
    }
    out + rest
}

/// `calls.h`: pointers to the library's functions, `a_Send`.
pub(super) fn declarations(functions: &[Function]) -> String {
    // Constant for those that call, so that a pointer is read when it is called and not kept in a register.
    let mut out = String::from(
        "/* Written by `cargo xtask translate`. SPDX-License-Identifier: MIT OR Apache-2.0 */\n\
         #ifndef CALL\n#define CALL const\n#endif\n",
    );
    for function in functions {
        let result = if HANDLES.contains(&function.result.as_str()) { "a_handle" } else { &function.result };
        let name = function.name.trim_start_matches("MPI_");
        let _ = writeln!(out, "extern HIDDEN {result} (*CALL a_{name})({});", library_params(function));
    }
    out
}

/// `calls.c`: their definitions, and the list by which they are looked up.
pub(super) fn definitions(functions: &[Function]) -> String {
    let mut out = format!("#define CALL\n{HEAD}");
    for function in functions {
        let name = function.name.trim_start_matches("MPI_");
        let _ = writeln!(out, "__typeof__(a_{name}) a_{name};");
    }
    out.push_str("const struct call {\n    const char *name;\n    void *at;\n} calls[] = {\n");
    for function in functions {
        let name = function.name.trim_start_matches("MPI_");
        let _ = writeln!(out, "    {{\"PMPI_{name}\", &a_{name}}},");
    }
    let _ = writeln!(out, "}};\nconst size_t calls_count = {};", functions.len());
    out
}

/// `functions.c`: every function that is made by rule.
///
/// # Errors
/// An argument follows no rule.
pub(super) fn functions(abi: Abi, functions: &[Function]) -> Result<String> {
    let mut out = String::from(HEAD);
    for function in functions.iter().filter(|function| is_by_rule(function)) {
        let arguments = arguments(function).with_context(|| function.name.clone())?;
        out.push_str(&print(function, &arguments));
        if is_there(abi, &function.name) {
            let _ = writeln!(out, "ALIAS({})", function.name);
        }
    }
    for name in REFUSED {
        let _ = writeln!(
            out,
            "int P{name}({})\n{{\n    return refuse(\"{name}\");\n}}\nALIAS({name})",
            named_params(functions, name)
        );
    }
    Ok(out)
}

/// The parameters of a function, marked as unused.
fn named_params(functions: &[Function], name: &str) -> String {
    let function = functions.iter().find(|function| function.name == name).expect("a name of the table");
    function
        .c_params
        .split(',')
        .map(|p| format!("__attribute__((unused)) {}", p.trim()))
        .collect::<Vec<_>>()
        .join(", ")
}

/// The pieces of one function.
#[derive(Default)]
struct Body {
    before: Vec<String>,
    conditions: Vec<String>,
    prepare: Vec<String>,
    call: Vec<String>,
    after: Vec<String>,
    release: Vec<String>,
}

fn print(function: &Function, arguments: &[Argument]) -> String {
    let mut body = Body::default();
    // The lengths of arrays of types follow from the communicator.
    let asks_comm = arguments
        .iter()
        .any(|a| matches!(&a.kind, Kind::Handles { length, .. } if length.contains("a_comm")));
    if asks_comm {
        body.before.push("a_handle a_comm = in_MPI_Comm(comm);".to_owned());
    }
    arguments.iter().for_each(|argument| body.add(argument));
    let name = &function.name;
    let params = &function.c_params;
    let call = format!("a_{}({})", name.trim_start_matches("MPI_"), body.call.join(", "));
    let mut out = format!("{} P{name}({params})\n{{\n", function.result);
    let mut line = |text: &str| out.push_str(&format!("    {text}\n"));
    body.before.iter().for_each(|text| line(text));
    if body.conditions.is_empty() {
        body.prepare.iter().for_each(|text| line(text));
        if body.after.is_empty() {
            line(&format!("return out_error({call});"));
        } else {
            line(&format!("int code = {call};"));
            body.after.iter().for_each(|text| line(text));
            line("return out_error(code);");
        }
    } else {
        line("int code = A_MPI_ERR_NO_MEM;");
        line(&format!("if (likely({})) {{", body.conditions.join(" && ")));
        body.prepare.iter().for_each(|text| line(&format!("    {text}")));
        line(&format!("    code = {call};"));
        body.after.iter().for_each(|text| line(&format!("    {text}")));
        line("}");
        body.release.iter().for_each(|text| line(text));
        line("return out_error(code);");
    }
    out.push_str("}\n");
    out
}

/// Whether a program built for this ABI finds a function.
pub(super) fn is_there(abi: Abi, function: &str) -> bool {
    abi != Abi::OpenMpi || !NOT_OF_OPENMPI.contains(&function)
}

impl Body {
    fn add(&mut self, argument: &Argument) {
        let x = &argument.name;
        match &argument.kind {
            Kind::Plain => self.call.push(x.clone()),
            Kind::Buffer => self.call.push(format!("in_buffer({x})")),
            Kind::Attached => self.call.push(format!("in_attached({x})")),
            Kind::Detached => {
                self.call.push(x.clone());
                self.after.push(format!("if (code == 0) *(void **){x} = out_attached(*(void **){x});"));
            }
            Kind::Weights => self.call.push(format!("in_weights({x})")),
            Kind::Number(group) => self.call.push(format!("in_{group}({x})")),
            Kind::NumberPointer(group, way) => self.pointer(x, "int", group, *way, "0"),
            Kind::Numbers(group, way, length) => self.array(x, "int", group, *way, length),
            Kind::Handle { of, unsure: true } => self.call.push(format!("in_unsure_{of}({x})")),
            Kind::Handle { of, .. } => self.call.push(format!("in_{of}({x})")),
            Kind::HandlePointer(of, way) => self.pointer(x, "a_handle", of, *way, "0"),
            Kind::Handles { of, way, length } => self.array(x, "a_handle", of, *way, length),
            Kind::Status(way) => self.status(x, *way),
            Kind::Statuses(length) => self.statuses(x, length),
            Kind::Text { most, length } => self.text(x, most, length),
        }
    }

    /// A variable that may be missing where the tool interface allows it.
    fn pointer(&mut self, x: &str, ty: &str, by: &str, way: Way, start: &str) {
        match way {
            Way::Out => {
                self.before.push(format!("{ty} a_{x} = {start};"));
                self.after.push(format!("if (likely(code == 0 && {x} != NULL)) *{x} = out_{by}(a_{x});"));
            }
            _ => {
                self.before.push(format!("{ty} a_{x} = {x} != NULL ? in_{by}(*{x}) : 0;"));
                self.after.push(format!("if (likely({x} != NULL)) *{x} = out_{by}(a_{x});"));
            }
        }
        self.call.push(format!("{x} != NULL ? &a_{x} : NULL"));
    }

    fn array(&mut self, x: &str, to: &str, by: &str, way: Way, length: &str) {
        self.before.push(format!("size_t length_{x} = length_of({length});"));
        self.before.push(format!("{to} few_{x}[FEW];"));
        self.before.push(format!("{to} *a_{x} = room(few_{x}, sizeof few_{x}, length_{x} * sizeof({to}));"));
        self.conditions.push(format!("a_{x} != NULL"));
        let each = format!("for (size_t i = 0; {x} != NULL && i < length_{x}; i++)");
        if way != Way::Out {
            self.prepare.push(format!("{each} a_{x}[i] = in_{by}({x}[i]);"));
        }
        if way != Way::In {
            let code = if way == Way::Out { "code == 0 && " } else { "" };
            let each = format!("for (size_t i = 0; {code}{x} != NULL && i < length_{x}; i++)");
            self.after.push(format!("{each} {x}[i] = out_{by}(a_{x}[i]);"));
        }
        self.release.push(format!("leave(few_{x}, a_{x});"));
        self.call.push(format!("{x} != NULL ? a_{x} : NULL"));
    }

    fn status(&mut self, x: &str, way: Way) {
        if way == Way::Out {
            self.before.push(format!("a_status a_{x};\n    unset_status(&a_{x});"));
            self.call.push(format!("{x} != MPI_STATUS_IGNORE ? &a_{x} : NULL"));
            self.after.push(format!("if ({x} != MPI_STATUS_IGNORE) out_status(&a_{x}, {x});"));
        } else {
            self.before
                .push(format!("a_status a_{x};\n    if ({x} != MPI_STATUS_IGNORE) in_status({x}, &a_{x});"));
            self.call.push(format!("{x} != MPI_STATUS_IGNORE ? &a_{x} : NULL"));
            if way == Way::InOut {
                self.after
                    .push(format!("if ({x} != MPI_STATUS_IGNORE) out_status(&a_{x}, (MPI_Status *){x});"));
            }
        }
    }

    fn statuses(&mut self, x: &str, length: &str) {
        let most = if length == "*outcount" { "incount" } else { length };
        self.before.push(format!("size_t length_{x} = {x} != MPI_STATUSES_IGNORE ? length_of({most}) : 0;"));
        self.before.push(format!("a_status few_{x}[FEW];"));
        self.before
            .push(format!("a_status *a_{x} = room(few_{x}, sizeof few_{x}, length_{x} * sizeof(a_status));"));
        self.conditions.push(format!("a_{x} != NULL"));
        self.prepare.push(format!("for (size_t i = 0; i < length_{x}; i++) unset_status(&a_{x}[i]);"));
        self.call.push(format!("{x} != MPI_STATUSES_IGNORE ? a_{x} : NULL"));
        self.after.push(format!("for (size_t i = 0; i < length_{x}; i++) out_status(&a_{x}[i], &{x}[i]);"));
        self.release.push(format!("leave(few_{x}, a_{x});"));
    }

    /// Only where the library's texts may be longer than the foreign ABI's: elsewhere it writes the user's.
    fn text(&mut self, x: &str, most: &str, length: &str) {
        self.before.push(format!("char a_{x}[A_{most} + 1];\n    a_{x}[0] = '\\0';"));
        self.call.push(format!("{x} != NULL ? a_{x} : NULL"));
        self.after.push(format!("if (code == 0 && {x} != NULL) out_text({x}, {most}, a_{x}, {length});"));
    }
}
