//! House rules as tests.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should fall over")]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path, extension));
        } else if path.extension().is_some_and(|found| found == extension) {
            found.push(path);
        }
    }
    found
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

/// Every source file begins by saying what it is for.
#[test]
fn every_module_says_what_it_is_for() {
    let sources = files(&root().join("crates"), "rs");
    let silent: Vec<&PathBuf> = sources
        .iter()
        .filter(|path| path.components().any(|part| part.as_os_str() == "src"))
        .filter(|path| !path.to_string_lossy().ends_with("_tests.rs"))
        .filter(|path| !read(path).starts_with("//!"))
        .collect();
    assert!(silent.is_empty(), "begin these files with a `//!` line: {silent:#?}");
}

/// Every failure code is explained, and nothing is explained that does not exist.
#[test]
fn every_failure_code_is_in_the_docs() {
    let documented: BTreeSet<String> = read(&root().join("docs/errors.md"))
        .lines()
        .filter_map(|line| line.strip_prefix("### `")?.strip_suffix('`'))
        .map(str::to_owned)
        .collect();
    let given: BTreeSet<String> =
        turnwire_engine::failures::CODES.iter().map(|code| (*code).to_owned()).collect();
    assert_eq!(documented, given);
}

/// Links between the documents lead somewhere.
#[test]
fn links_between_documents_are_good() {
    let root = root();
    let mut documents = files(&root.join("docs"), "md");
    documents.extend(
        ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"]
            .map(|name| root.join(name)),
    );
    for document in documents {
        let text = read(&document);
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let target = target.split('#').next().unwrap_or_default();
            if target.is_empty() || target.contains("://") {
                continue;
            }
            let path = document.parent().unwrap().join(target);
            assert!(path.exists(), "{} links to {target}, which is not there", document.display());
        }
    }
}

/// Tests are never switched off.
#[test]
fn no_test_is_ignored() {
    let switched_off = concat!("#[", "ignore");
    let ignored: Vec<PathBuf> = files(&root().join("crates"), "rs")
        .into_iter()
        .filter(|path| read(path).contains(switched_off))
        .collect();
    assert!(ignored.is_empty(), "{ignored:#?}");
}
