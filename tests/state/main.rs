//! The state folder of the real program: killed at any moment, broken files, a disk that is
//! left alone, slow, or refuses; pushes.
//!
//! The relay logs at `debug` here, because it says then which content is safe on disk: that is what
//! a restart must never fall behind. What is served is asked over plain HTTP. The model of power
//! cuts is beside the code that writes; here it is the kernel that keeps what was written.

#[path = "../harness/mod.rs"]
mod harness;

mod damage;
mod kills;
mod order;
mod push;
mod quiet;
mod refusing;
mod reworded;
mod site;
mod slow;
mod strace;
