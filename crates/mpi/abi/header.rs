//! Prints `include/mpi.h` from the tables. Shared by `cargo xtask abi` and the test that the file is current.

#![allow(unreachable_pub, reason = "a module of three programs")]

use super::table::{Function, Item};

const HEAD: &str = "\
/* The MPI-5.0 standard ABI. Written by `cargo xtask abi` from crates/mpi/abi; do not edit.
 *
 * A program compiled with this header runs on any library of the standard ABI, and a program compiled with
 * another header of that ABI runs on ours. SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef MPI_H_ABI
#define MPI_H_ABI

#include <stdint.h>

#if defined(__cplusplus)
extern \"C\" {
#endif
";

const TAIL: &str = "
#if defined(__cplusplus)
}
#endif

#endif /* MPI_H_ABI */
";

/// The width to which names of constants are padded.
const NAME_WIDTH: usize = 34;

/// Writes consecutive enumerators as one `enum`.
fn flush(out: &mut String, open: &mut Option<String>, members: &mut Vec<(String, String)>) {
    if members.is_empty() {
        return;
    }
    match open {
        Some(name) => out.push_str(&format!("typedef enum {name} {{\n")),
        None => out.push_str("enum {\n"),
    }
    let last = members.len() - 1;
    for (i, (name, value)) in members.drain(..).enumerate() {
        let comma = if i == last { "" } else { "," };
        out.push_str(&format!("    {name:<NAME_WIDTH$} = {value}{comma}\n"));
    }
    match open.take() {
        Some(name) => out.push_str(&format!("}} {name};\n")),
        None => out.push_str("};\n"),
    }
}

/// The text of `mpi.h`.
pub fn print(functions: &[Function], constants: &[Item]) -> String {
    let mut out = String::from(HEAD);
    let (mut open, mut members) = (None, Vec::new());
    for item in constants {
        if !matches!(item, Item::Int { .. }) {
            flush(&mut out, &mut open, &mut members);
        }
        match item {
            Item::Heading(text) => out.push_str(&format!("\n/* {text} */\n")),
            Item::Handle { name, tag } => out.push_str(&format!("typedef struct {tag} *{name};\n")),
            Item::Typed { ty, name, value } => {
                let ty = match ty.find('*') {
                    Some(at) => format!("{} {}", &ty[..at], &ty[at..]),
                    None => ty.clone(),
                };
                out.push_str(&format!("#define {name:<NAME_WIDTH$} (({ty}){value})\n"));
            }
            Item::Define { name, value } => out.push_str(&format!("#define {name:<NAME_WIDTH$} {value}\n")),
            Item::Alias { name, other } => out.push_str(&format!("#define {name:<NAME_WIDTH$} {other}\n")),
            Item::EnumBegin(name) => open = Some(name.clone()),
            Item::Int { name, value } => members.push((name.clone(), value.clone())),
            Item::EnumEnd => {}
            Item::C(text) => out.push_str(&format!("{text}\n")),
        }
    }
    flush(&mut out, &mut open, &mut members);
    for (prefix, heading) in [("", "Functions"), ("P", "The same by their profiling names")] {
        out.push_str(&format!("\n/* {heading} */\n"));
        let mut chapter = "";
        for f in functions {
            if f.chapter != chapter {
                chapter = &f.chapter;
                out.push_str(&format!("\n/* {chapter} */\n"));
            }
            out.push_str(&format!("{} {prefix}{}({});\n", f.result, f.name, f.c_params));
        }
    }
    out.push_str(TAIL);
    out
}
