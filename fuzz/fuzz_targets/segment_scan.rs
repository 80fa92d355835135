//! Fuzzes `fuzz::segment_scan`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::segment_scan(data));
