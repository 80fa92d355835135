//! A simulated disk under a virtual clock.
