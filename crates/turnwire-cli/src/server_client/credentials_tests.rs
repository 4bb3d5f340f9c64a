//! The file with the keys.

use super::*;

fn at(folder: &Path) -> Environment {
    [("HOME", folder.to_str().unwrap())].into_iter().collect()
}

fn server(text: &str) -> ServerAddress {
    ServerAddress::parse(text).unwrap()
}

#[test]
fn a_key_is_saved_for_its_origin_and_forgotten() {
    let home = tempfile::tempdir().unwrap();
    let environment = at(home.path());
    let read = || Credentials::read(&environment).unwrap();
    assert_eq!(read().key_of(&server("http://a:1")), None);
    let path = read().save(&server("http://a:1/path"), "one".to_owned()).unwrap();
    assert_eq!(path, home.path().join(".config/turnwire/credentials.json"));
    assert_eq!(read().key_of(&server("http://a:1")), Some("one"));
    assert_eq!(read().key_of(&server("http://a:2")), None, "a port is another origin");
    assert_eq!(read().key_of(&server("https://a:1")), None, "a scheme is another origin");
    assert_eq!(read().only_server().as_deref(), Some("http://a:1"));
    read().save(&server("http://b"), "two".to_owned()).unwrap();
    assert_eq!(read().only_server(), None, "which of the two?");
    assert!(read().remove(&server("http://a:1")).unwrap());
    assert!(!read().remove(&server("http://a:1")).unwrap());
    assert_eq!(read().key_of(&server("http://b")), Some("two"));
}

/// Nobody else on the machine can read the keys.
#[cfg(unix)]
#[test]
fn the_file_belongs_to_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;

    let home = tempfile::tempdir().unwrap();
    let mut credentials = Credentials::read(&at(home.path())).unwrap();
    let path = credentials.save(&server("http://a"), "one".to_owned()).unwrap();
    let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(), 0o600);
    // Also after somebody opened it up and it is written again.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    credentials.save(&server("http://a"), "two".to_owned()).unwrap();
    assert_eq!(mode(), 0o600);
}

#[test]
fn a_broken_file_is_told_of() {
    let home = tempfile::tempdir().unwrap();
    let environment = at(home.path());
    let path = usual_path(&environment).unwrap();
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, "{").unwrap();
    let problem = Credentials::read(&environment).err().unwrap();
    assert!(problem.message.contains("credentials.json"), "{problem}");
    let mut nowhere = Credentials::read(&Environment::default()).unwrap();
    assert!(nowhere.save(&server("http://a"), "one".to_owned()).is_err());
}
