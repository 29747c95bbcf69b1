//! All targets in one program: linked once, it runs the one that `MEMWALL_FUZZ_TARGET` names.
#![no_main]

use std::{env, sync::LazyLock};

static TARGET: LazyLock<String> =
    LazyLock::new(|| env::var("MEMWALL_FUZZ_TARGET").expect("MEMWALL_FUZZ_TARGET names a target"));

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_bodies::run(&TARGET, bytes));
