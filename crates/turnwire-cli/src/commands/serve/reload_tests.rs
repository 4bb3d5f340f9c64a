use super::*;

fn mistakes(problem: &Problem) -> Vec<String> {
    match mistakes_of(problem) {
        ReloadRefused::Mistakes(mistakes) => mistakes,
        ReloadRefused::NotRecorded => Vec::new(),
    }
}

/// The line that a parser quotes may be the one with the keys. It is neither logged nor sent.
#[test]
fn a_quoted_line_is_left_out() {
    let mut problem = Problem::usage("turnwire.toml is not TOML");
    let error = "api_keys = [\"tw_secret\n".parse::<toml::Table>().unwrap_err();
    problem.details = error.to_string().lines().map(str::to_owned).collect();
    assert!(problem.details.iter().any(|line| line.contains("tw_secret")));
    let [mistake] = mistakes(&problem).try_into().unwrap();
    assert!(
        mistake.starts_with("turnwire.toml is not TOML: TOML parse error at line 1"),
        "{mistake}"
    );
    assert!(!mistake.contains("tw_secret"), "{mistake}");
}

#[test]
fn every_mistake_is_told() {
    let mut problem = Problem::usage("2 mistakes in turnwire.toml");
    problem.details = vec!["server.listen: no".to_owned(), "limits.max_turns: no".to_owned()];
    assert_eq!(mistakes(&problem), problem.details);
    assert_eq!(mistakes(&Problem::usage("it cannot be read")), ["it cannot be read"]);
}
