//! A test build can inject faults: see `src/fault_injection.rs`.

fn main() {
    println!("cargo::rustc-check-cfg=cfg(seeded_faults)");
    println!("cargo::rerun-if-env-changed=TURNWIRE_SEEDED_FAULTS");
    let wanted = std::env::var_os("TURNWIRE_SEEDED_FAULTS").is_some();
    if wanted {
        println!("cargo::rustc-cfg=seeded_faults");
    }
}
