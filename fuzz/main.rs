//! One target of `turnwire-fuzz` under libFuzzer. `TURNWIRE_FUZZ_TARGET` names it.
#![no_main]

use std::{env, sync::LazyLock};

use turnwire_fuzz::{TARGETS, Target};

static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    let name = env::var("TURNWIRE_FUZZ_TARGET").expect("TURNWIRE_FUZZ_TARGET names a target");
    TARGETS.iter().find(|target| target.name == name).expect("there is such a target")
});

libfuzzer_sys::fuzz_target!(|input: &[u8]| (TARGET.run)(input));
