//! Fuzzes `store_os::fuzz_recovery_point`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| store_os::fuzz_recovery_point(data));
