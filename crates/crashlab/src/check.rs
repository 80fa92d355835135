//! Whether a recovered log keeps what was promised.
