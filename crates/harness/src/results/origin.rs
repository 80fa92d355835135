//! Which program made a record.

use serde::{Deserialize, Serialize};

/// Which program made a record, and how it was called.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Origin {
    /// This program's version.
    pub version: String,
    /// The source revision, `null` outside a checkout.
    pub revision: Option<String>,
    /// Whether the checkout had changes.
    pub dirty: Option<bool>,
    /// The command that was given.
    pub command: Vec<String>,
}

impl Origin {
    /// This program, called so; the revision and whether it had changes, if they are known.
    pub fn here(command: &[String], revision: Option<&(String, bool)>) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            revision: revision.map(|(revision, _)| revision.clone()),
            dirty: revision.map(|(_, dirty)| *dirty),
            command: command.to_vec(),
        }
    }
}
