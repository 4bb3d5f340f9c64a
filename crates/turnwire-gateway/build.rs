//! Compiles this crate again when the web view was built: the files in `web/dist` are embedded, and
//! which files there are is not known beforehand.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=../../web/dist");
}
