//! What a run told its producers.
