use super::*;

const TEXT: &str = r#"# HELP t_live Runs at work
# TYPE t_live gauge
t_live 3
# HELP t_age_seconds Age
# TYPE t_age_seconds gauge
# UNIT t_age_seconds seconds
t_age_seconds 0.0
# HELP t_calls Calls
# TYPE t_calls counter
t_calls_total{server="a",outcome=""} 2
t_calls_total{server="\"q\" \\ } ,\n",outcome="failed"} 1
# HELP t_cost Cost
# TYPE t_cost counter
t_cost_total 1.5e-9
# HELP t_time_seconds Time
# TYPE t_time_seconds histogram
# UNIT t_time_seconds seconds
t_time_seconds_sum{model="m"} 4.5
t_time_seconds_count{model="m"} 3
t_time_seconds_bucket{le="0.5",model="m"} 1
t_time_seconds_bucket{le="+Inf",model="m"} 3
t_time_seconds_sum{model="n"} 0.0
t_time_seconds_count{model="n"} 0
t_time_seconds_bucket{le="+Inf",model="n"} 0
# EOF
"#;

fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// Names, help, units, labels with any letters and numbers of both kinds are read exactly.
#[test]
fn everything_that_the_server_writes_is_read() {
    let families = read(TEXT).unwrap();
    let names: Vec<&str> = families.iter().map(|family| family.name.as_str()).collect();
    assert_eq!(names, ["t_live", "t_age_seconds", "t_calls", "t_cost", "t_time_seconds"]);
    assert_eq!(families[0].points, Points::Gauge(vec![(vec![], Number::Integer(3))]));
    assert_eq!((families[0].help.as_str(), families[0].unit.as_str()), ("Runs at work", ""));
    assert_eq!(families[1].points, Points::Gauge(vec![(vec![], Number::Float(0.0))]));
    assert_eq!(families[1].unit, "seconds");
    let calls = vec![
        (labels(&[("server", "a"), ("outcome", "")]), Number::Integer(2)),
        (labels(&[("server", "\"q\" \\ } ,\n"), ("outcome", "failed")]), Number::Integer(1)),
    ];
    assert_eq!(families[2].points, Points::Counter(calls));
    assert_eq!(families[3].points, Points::Counter(vec![(vec![], Number::Float(1.5e-9))]));
    let times = vec![
        (
            labels(&[("model", "m")]),
            Buckets { sum: 4.5, cumulative: vec![(0.5, 1), (f64::INFINITY, 3)] },
        ),
        (labels(&[("model", "n")]), Buckets { sum: 0.0, cumulative: vec![(f64::INFINITY, 0)] }),
    ];
    assert_eq!(families[4].points, Points::Histogram(times));
}

/// What is not understood is an error with its line, and not a metric less.
#[test]
fn other_text_is_refused() {
    let begin = "# HELP t x\n# TYPE t gauge\n";
    for wrong in [
        "t",
        "t x",
        "other 1",
        "t_total 1",
        "t{a=\"b} 1",
        "t{a=\"b\" 1",
        "t 1 1700000000",
        "# TYPE t summary",
        "# UNIT other seconds",
        "",
    ] {
        let read = read(&format!("{begin}{wrong}\n"));
        assert_eq!(read, Err(UnreadableLine { number: 3 }), "{wrong}");
    }
    assert_eq!(read("t 1\n"), Err(UnreadableLine { number: 1 }));
    let untyped = "# HELP t x\nt 1\n";
    assert_eq!(read(untyped), Err(UnreadableLine { number: 2 }));
}
