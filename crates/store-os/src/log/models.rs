//! Logs on files in memory, under many interleavings: small ones under each of loom's, whole ones
//! with all their threads under shuttle's random ones.

#[cfg(modelled = "loom")]
mod exhaustive;
mod memory;
#[cfg(modelled = "shuttle")]
mod random;
