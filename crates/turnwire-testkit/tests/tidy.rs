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

/// S2-27: every code of the chat socket is explained.
#[test]
fn every_code_of_the_socket_is_in_the_docs() {
    let page = read(&root().join("docs/errors.md"));
    for code in turnwire_surfaces::ErrorCode::ALL {
        assert!(page.contains(&format!("\n| `{code}` |")), "{code} is not in docs/errors.md");
    }
}

/// Every code with which the gateway refuses a request is explained, and nothing is explained
/// that does not exist.
#[test]
fn every_code_of_a_refusal_is_in_the_docs() {
    let given: BTreeSet<String> = files(&root().join("crates/turnwire-gateway/src"), "rs")
        .iter()
        .filter(|path| !path.to_string_lossy().ends_with("_tests.rs"))
        .flat_map(|path| codes_in(&read(path)))
        .collect();
    assert!(given.len() > 40 && given.contains("invalid_json"), "the search is blind: {given:?}");
    let is_code = |code: &&str| code.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
    let page = read(&root().join("docs/errors.md"));
    let (_, refusals) = page.split_once("\n## Requests that are refused\n").unwrap();
    let explained: BTreeSet<String> = refusals
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once("` |"))
        .map(|(code, _)| code)
        .filter(is_code)
        .map(str::to_owned)
        .collect();
    assert_eq!(given, explained);
}

/// The codes in a source file of the gateway: the first text in whatever makes a refusal.
fn codes_in(source: &str) -> Vec<String> {
    const MAKERS: [&str; 9] = [
        "ApiError::new(",
        "Self::new(",
        "Self::conflict(",
        "bad_request(",
        "ClientError::new(",
        "ClientError::not_found(",
        "forbidden(",
        "bad(",
        "code: ",
    ];
    let code_after = |rest: &str| {
        let (before, rest) = rest.split_once('"')?;
        let may_stand_before = |c: char| c.is_alphanumeric() || "_:, \n".contains(c);
        let (code, _) = rest.split_once('"')?;
        let is_code = code.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
        (before.chars().all(may_stand_before) && is_code).then(|| code.to_owned())
    };
    MAKERS.iter().flat_map(|maker| source.split(maker).skip(1).filter_map(code_after)).collect()
}

/// Every label that a test names is explained.
#[test]
fn every_label_is_in_the_docs() {
    let page = read(&root().join("docs/labels.md"));
    let explained: BTreeSet<String> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split_once(" |"))
        .flat_map(|(labels, _)| labels.split(", ").map(str::to_owned))
        .collect();
    let mut tests = files(&root().join("crates"), "rs");
    tests.retain(|path| {
        let path = path.to_string_lossy();
        path.contains("/tests/") || path.ends_with("_tests.rs")
    });
    for extension in ["py", "mjs"] {
        tests.extend(files(&root().join("tests/clients"), extension));
    }
    let mut unknown = BTreeSet::new();
    for path in tests {
        let text = read(&path);
        let is_comment = |line: &&str| ["//", "# ", "\"\"\""].iter().any(|c| line.starts_with(c));
        let comments = text.lines().map(str::trim_start).filter(is_comment);
        let named = comments.flat_map(labels_in);
        unknown.extend(named.filter(|label| !explained.contains(label)));
    }
    assert!(unknown.is_empty(), "not in docs/labels.md: {unknown:?}");
}

/// `R7` and its like, and not the end of a requirement (`S1-A4`) or of a longer word.
fn labels_in(line: &str) -> Vec<String> {
    let words = line.split(|c: char| !(c.is_ascii_alphanumeric() || "-_`".contains(c)));
    let is_label = |word: &&str| {
        let mut letters = word.chars();
        letters.next().is_some_and(|first| "RCALT".contains(first))
            && (1..=2).contains(&letters.as_str().len())
            && letters.all(|c| c.is_ascii_digit())
    };
    words.filter(is_label).map(str::to_owned).collect()
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
