//! Prints the C functions behind the procedures of `mpi_f08` that take buffers: `mpi_send_cdesc_` and so on.
//!
//! A buffer comes as a descriptor. One without gaps goes to the function of the old interface as it is. A
//! section with gaps becomes a datatype where one count and one datatype describe the buffer, else is copied
//! while a blocking function runs; what neither works for is refused.

use super::prototype::{Kind, Number, Procedure};
use super::symbols::{Body, c_number};

const HEAD: &str = "\
/* Written by `cargo xtask` from crates/mpi/abi/functions.txt. SPDX-License-Identifier: MIT OR Apache-2.0 */
#include \"binding.h\"
#include \"section.h\"
";

/// What becomes of a section with gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// One element of a datatype made for it; the count's type.
    Typed(Number),
    /// Copied together before the call, and back after it.
    Copied,
    /// Only its begin counts.
    Address,
    Refused,
}

fn mode(procedure: &Procedure, at: usize) -> Mode {
    let name = procedure.name.as_str();
    let argument = |i: usize| procedure.arguments.get(i);
    let has = |of: &str| procedure.arguments.iter().any(|a| a.kind == Kind::Handle(of.to_owned()));
    let count = match argument(at + 1).map(|a| &a.kind) {
        Some(Kind::Value(number @ (Number::Int | Number::Count))) => Some(*number),
        _ => None,
    };
    let is_typed = argument(at + 2).is_some_and(|a| a.kind == Kind::Handle("MPI_Datatype".to_owned()));
    // The blocks of several processes lie one after another: no datatype of one block describes them.
    let x = procedure.arguments[at].name.as_str();
    let is_all = name.to_lowercase().contains("alltoall");
    let has_blocks = (x == "recvbuf" && (is_all || name.contains("gather")))
        || (x == "sendbuf" && (is_all || name.contains("catter")));
    match count {
        Some(number) if is_typed && !has_blocks && (!has("MPI_Op") || has("MPI_Win")) => Mode::Typed(number),
        _ if !procedure.is_asynchronous() => Mode::Copied,
        _ if has("MPI_Comm") => Mode::Refused,
        _ => Mode::Address,
    }
}

/// All functions with buffers.
pub(super) fn print(procedures: &[Procedure]) -> String {
    let mut out = String::from(HEAD);
    for procedure in procedures.iter().filter(|p| p.is_new() && p.has_choice()) {
        function(&mut out, procedure);
    }
    out
}

/// The pieces of one C function.
#[derive(Default)]
struct Pieces {
    /// Its parameters, but for `ierror` and the lengths of strings.
    parameters: Vec<String>,
    /// What the old function gets when no buffer has gaps, and when one has.
    plain: Vec<String>,
    actual: Vec<String>,
    /// The buffers for which something is made, how, and what is declared then.
    sections: Vec<String>,
    begins: Vec<String>,
    declarations: Vec<String>,
    conditions: Vec<String>,
    /// The places of arguments that a datatype replaces.
    replaced: Vec<usize>,
}

impl Pieces {
    fn choice(&mut self, procedure: &Procedure, at: usize, constant: bool) {
        let x = procedure.arguments[at].name.as_str();
        self.parameters.push(format!("CFI_cdesc_t *{x}"));
        self.plain.push(format!("{x}->base_addr"));
        self.conditions.push(format!("is_plain({x})"));
        let (can_copy, writes) = (i32::from(!procedure.is_asynchronous()), i32::from(!constant));
        self.begins.push(match mode(procedure, at) {
            Mode::Address => {
                self.actual.push(format!("{x}->base_addr"));
                return;
            }
            Mode::Typed(number) => {
                let [count, datatype] = [at + 1, at + 2].map(|i| procedure.arguments[i].name.as_str());
                let one = if number == Number::Int { "one" } else { "one_count" };
                let of = c_number(number);
                self.declarations.push(format!("const {of} *c_{count} = s_{x}.is_typed ? &{one} : {count};"));
                self.declarations
                    .push(format!("const int *c_{datatype} = s_{x}.is_typed ? &s_{x}.handle : {datatype};"));
                self.replaced.extend([at + 1, at + 2]);
                format!("section_typed(&s_{x}, {x}, *{count}, *{datatype}, {can_copy}, {writes})")
            }
            Mode::Copied => format!("section_copied(&s_{x}, {x}, {writes})"),
            Mode::Refused => format!("section_refused(&s_{x}, {x}, *comm)"),
        });
        self.sections.push(format!("s_{x}"));
        self.actual.push(format!("s_{x}.address"));
    }

    fn other(&mut self, at: usize, x: &str, parameter: String) {
        self.parameters.push(parameter);
        self.plain.push(x.to_owned());
        self.actual.push(if self.replaced.contains(&at) { format!("c_{x}") } else { x.to_owned() });
    }

    /// The body of a function that calls `callee`, the function of the old interface.
    fn body(&self, callee: &str, lengths: &[String]) -> String {
        let call = |arguments: &[String], ierror: &str| {
            let all = arguments.iter().cloned().chain([ierror.to_owned()]).chain(lengths.iter().cloned());
            format!("{callee}({});", all.collect::<Vec<_>>().join(", "))
        };
        let plain = call(&self.plain, "ierror");
        let Some((first, others)) = self.begins.split_first() else { return format!("    {plain}\n") };
        let mut out = format!(
            "    if ({}) {{\n        {plain}\n        return;\n    }}\n",
            self.conditions.join(" && ")
        );
        let mut line = |text: &str| out.push_str(&format!("    {text}\n"));
        for section in &self.sections {
            line(&format!("struct section {section} = SECTION_NONE;"));
        }
        line(&format!("int code = {first};"));
        for begin in others {
            line(&format!("if (code == MPI_SUCCESS) code = {begin};"));
        }
        self.declarations.iter().for_each(|text| line(text));
        line(&format!("if (code == MPI_SUCCESS) {}", call(&self.actual, "&code")));
        for section in &self.sections {
            line(&format!("section_end(&{section});"));
        }
        line("*ierror = code;");
        out
    }
}

fn function(out: &mut String, procedure: &Procedure) {
    let name = procedure.name.to_lowercase();
    let (mut old, mut pieces) = (Body::default(), Pieces::default());
    for (at, argument) in procedure.arguments.iter().enumerate() {
        old.add(argument);
        match argument.kind {
            Kind::Choice { constant } => pieces.choice(procedure, at, constant),
            _ => pieces.other(at, &argument.name, old.parameters.last().cloned().unwrap_or_default()),
        }
    }
    let parameters = |own: &[String]| {
        let lengths = old.strings.iter().map(|x| format!("size_t length_{x}"));
        own.iter().cloned().chain(["int *ierror".to_owned()]).chain(lengths).collect::<Vec<_>>().join(", ")
    };
    let lengths: Vec<String> = old.strings.iter().map(|x| format!("length_{x}")).collect();
    let callee = format!("F({name})");
    let declaration = format!("void F({name}_cdesc)({})", parameters(&pieces.parameters));
    out.push_str(&format!("\nvoid {callee}({});\n", parameters(&old.parameters)));
    out.push_str(&format!("{declaration};\n{declaration}\n{{\n{}}}\n", pieces.body(&callee, &lengths)));
}
