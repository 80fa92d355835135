//! A log on real files under load, with a witness of what its producers were told.
