//! Compiles this crate again when the web view or the documentation was built: the files in
//! `web/dist` and `docs/book` are embedded, and which files there are is not known beforehand.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=../../web/dist");
    println!("cargo:rerun-if-changed=../../docs/book");
}
