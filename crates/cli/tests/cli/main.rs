//! The `ayatori` command as its users run it.

mod hosts;
mod info;
mod inputs;
mod manners;
mod run;
mod sim;
mod tree;
mod why;
