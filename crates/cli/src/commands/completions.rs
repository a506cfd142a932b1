//! `ayatori completions` and `ayatori man`: what shells and man(1) are to know, made from the parser.

use crate::exit::Exit;
use anyhow::Context;
use clap_complete::Shell;
use std::io::Write as _;
use std::path::PathBuf;

/// What `ayatori completions` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ayatori completions bash > ~/.local/share/bash-completion/completions/ayatori
  ayatori completions zsh > ~/.zfunc/_ayatori        (with fpath+=~/.zfunc before compinit)
  ayatori completions fish > ~/.config/fish/completions/ayatori.fish")]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

/// What `ayatori man` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct ManArgs {
    /// Write a page for each subcommand into this folder: ayatori.1, ayatori-run.1 …
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Prints the completions.
pub(crate) fn run(args: &Args, mut command: clap::Command) -> anyhow::Result<Exit> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut command, "ayatori", &mut text);
    std::io::stdout().lock().write_all(&text)?;
    Ok(Exit::Success)
}

/// Prints the page of `ayatori`, or writes all pages.
pub(crate) fn run_man(args: &ManArgs, command: clap::Command) -> anyhow::Result<Exit> {
    match &args.out {
        None => clap_mangen::Man::new(command).render(&mut std::io::stdout().lock())?,
        Some(folder) => {
            let what = || format!("cannot write the pages into {}", folder.display());
            std::fs::create_dir_all(folder).with_context(what)?;
            clap_mangen::generate_to(command, folder).with_context(what)?;
        }
    }
    Ok(Exit::Success)
}
