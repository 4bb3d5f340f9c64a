//! Callbacks of another shape do not compile, and the compiler says what is wrong.
//!
//! The programs in `tests/compile_fail` are given to the compiler with the library that this test
//! was built with: another build of all dependencies, which the usual harness for this makes,
//! would take longer than every other test together.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should fall over")]

use std::{
    env,
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use expect_test::expect_file;

/// What the compiler says of `program`: a line for each mistake.
fn complaints(program: &Path, library: &Path) -> String {
    let built = library.parent().unwrap();
    let mut named = OsStr::new("turnwire=").to_owned();
    named.push(library);
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new("rustc")
        .args(["--edition=2024", "--emit=metadata", "--error-format=short", "--extern"])
        .arg(named)
        .arg("-L")
        .arg(built)
        .arg("--out-dir")
        .arg(folder.path())
        .arg(program)
        .output()
        .unwrap();
    assert!(!output.status.success(), "{} compiles", program.display());
    let all = String::from_utf8(output.stderr).unwrap();
    all.lines().filter(|line| line.contains(": error")).flat_map(|line| [line, "\n"]).collect()
}

/// The library of this package: of several builds, the one made last.
fn library() -> PathBuf {
    let this = env::current_exe().unwrap();
    let entries = fs::read_dir(this.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path());
    let is_it = |path: &Path| {
        let name = path.file_stem().and_then(OsStr::to_str).unwrap_or_default();
        name.starts_with("libturnwire-") && path.extension().is_some_and(|kind| kind == "rlib")
    };
    let made = |path: &Path| fs::metadata(path).and_then(|about| about.modified()).unwrap();
    entries.filter(|path| is_it(path)).max_by_key(|path| made(path)).unwrap()
}

/// S0-8: closures with too few or too many arguments, or of another type.
/// S4-14: the old arguments of `on_assistant_message_added`.
/// S3-1: an `on_event` that is not async.
#[test]
fn callbacks_of_another_shape_do_not_compile() {
    let entries = fs::read_dir("tests/compile_fail").unwrap();
    let mut programs: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    programs.sort();
    let library = library();
    let told: String = programs.iter().map(|program| complaints(program, &library)).collect();
    expect_file!["../compile_fail.txt"].assert_eq(&told);
}
