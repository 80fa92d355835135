//! Messages whose content follows from a run's seed.
