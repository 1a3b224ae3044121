//! What `region` says and makes: records for people to sign, and a picture of all nodes.
//!
//! Pure functions over records and statuses; no file is opened and no node is asked here. `plan`
//! makes the first record and the next one, `show` is the table of `region show` with what does not
//! agree in words.
//!
//! Never signs anything: the key of a site's state stays off the gateways.

pub mod plan;
pub mod show;
