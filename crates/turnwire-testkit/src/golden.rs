//! Compares output with golden files. `UPDATE_GOLDENS=1` writes them instead, for review as a diff.

use std::{env, fs, path::Path};

/// Panics unless the file at `path` equals `actual`.
pub fn check(path: &Path, actual: &str) {
    if env::var_os("UPDATE_GOLDENS").is_some() {
        let folder = path.parent().expect("a golden file lies in a folder");
        fs::create_dir_all(folder).expect("the folder can be made");
        fs::write(path, actual).expect("the golden file can be written");
        return;
    }
    let expected = fs::read_to_string(path).unwrap_or_default();
    assert!(
        expected == actual,
        "{} differs; run the test with UPDATE_GOLDENS=1 and look at the diff\n--- expected\n{}\n--- actual\n{}",
        path.display(),
        first_difference(&expected, actual),
        first_difference(actual, &expected),
    );
}

/// Returns the lines around the first difference between `text` and `other`.
fn first_difference(text: &str, other: &str) -> String {
    let same = text.lines().zip(other.lines()).take_while(|(a, b)| a == b).count();
    let around = text.lines().skip(same.saturating_sub(2)).take(6);
    around.map(|line| line.chars().take(300).collect::<String>()).collect::<Vec<_>>().join("\n")
}
