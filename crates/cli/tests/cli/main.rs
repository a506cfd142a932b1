//! The `ayatori` command as its users run it.

mod hosts;
mod info;
mod inputs;
mod run;
mod sim;
mod why;
