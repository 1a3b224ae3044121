//! Staffetta.

pub mod config;
pub mod limits;
pub mod model;
pub mod time;

pub mod cli;
pub mod net;
pub mod state;
pub mod wire;
