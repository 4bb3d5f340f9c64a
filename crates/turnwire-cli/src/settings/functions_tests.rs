use std::{fs, time::Duration};

use serde_json::json;
use turnwire_contract::Effect;
use turnwire_tools::HttpMethod;

use super::{
    super::{
        file::{DEFAULT_FILE, SettingsFile},
        testing::{check_mistakes, demo_settings},
    },
    named_functions,
};

const WEATHER: &str = r#"
[functions.weather]
description = "Tells the weather of a city."
method = "get"
url = "https://api.example.com/weather/{city}?units={units}"
parameters = { type = "object", properties = { city = { type = "string" }, units = {} }, required = ["city"] }
effect = "pure"
headers = { X-Team = "blue", X-Mixed = "team ${TEAM}" }
header_env = { Authorization = "WEATHER_KEY" }
timeout_sec = 2.5
require_approval = true
"#;

/// A6: values from the environment are secret and are not printed.
#[test]
fn a_function_is_read() {
    let variables = [("WEATHER_KEY", "Bearer sk-secret"), ("TEAM", "violet")];
    let functions = demo_settings(WEATHER, &variables).unwrap().functions;
    let [weather] = functions.as_slice() else { panic!("{functions:?}") };
    assert_eq!((weather.name.as_str(), weather.method), ("weather", HttpMethod::Get));
    assert_eq!(weather.effect, Effect::Pure);
    assert_eq!(weather.timeout, Duration::from_millis(2500));
    assert!(weather.needs_approval);
    assert_eq!(weather.parameters["required"], json!(["city"]));
    assert_eq!(weather.headers.iter().collect::<Vec<_>>().len(), 1);
    assert_eq!(weather.headers["X-Team"], "blue");
    assert_eq!(weather.secret_headers.keys().collect::<Vec<_>>(), ["Authorization", "X-Mixed"]);
    let shown = format!("{weather:?}");
    assert!(!shown.contains("sk-secret") && !shown.contains("violet"), "{shown}");
}

#[test]
fn the_most_careful_effect_is_meant_when_none_is_named() {
    let text = "[functions.f]\ndescription = \"Does.\"\nmethod = \"POST\"\nurl = \"http://h/f\"";
    let functions = demo_settings(text, &[]).unwrap().functions;
    assert_eq!(functions[0].effect, Effect::Once);
    assert_eq!(functions[0].parameters, json!({ "type": "object", "properties": {} }));
}

#[test]
fn parameters_may_be_json_or_in_a_file() {
    let schema = r#"{"type":"object","properties":{"a":{}},"required":["a"]}"#;
    let begin = "[f]\ndescription = \"Does.\"\nmethod = \"GET\"\nurl = \"http://h/{a}\"\n";
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("schema.json"), schema).unwrap();
    let file = SettingsFile { path: folder.path().join(DEFAULT_FILE), text: String::new() };
    for how in [format!("parameters = '{schema}'"), "parameters_file = \"schema.json\"".to_owned()]
    {
        let table = format!("{begin}{how}").parse().unwrap();
        let mut mistakes = Vec::new();
        let functions = named_functions(table, &file, &mut mistakes);
        assert_eq!(mistakes, [""; 0]);
        assert_eq!(functions["f"].options.parameters["required"], json!(["a"]));
    }
}

#[test]
fn every_mistake_is_told() {
    check_mistakes(
        r#"
[functions."a b"]
description = "x"
method = "GET"
url = "http://h/"
[functions.brace]
description = "x"
method = "GET"
url = "http://h/{a"
[functions.empty]
[functions.file]
description = "x"
method = "GETS"
url = "http://h/"
parameters_file = "none.json"
effect = "pur"
timeout_sec = 0
[functions.host]
description = "x"
method = "GET"
url = "http://{a}/"
parameters = '{"type":"object","properties":{"a":{}}}'
[functions.keys]
description = "x"
method = "GET"
url = "http://h/"
headers = { X-A = "${NOBODY}" }
header_env = { X-A = "NOBODY", X-B = 3 }
[functions.list]
description = "x"
method = "GET"
url = "h"
parameters = "[1]"
[functions.web_search]
description = "x"
method = "GET"
url = "http://h/"
colour = "red"
"#,
        &[],
        &[
            "functions.\"a b\": a function's name has 1 to 64 letters, digits, `_` and `-`",
            "functions.brace.url: there is a `{` without its `}`, or the other way round",
            "functions.empty.method: missing; there are `GET`, `POST`, `PUT`, `PATCH`, `DELETE`",
            "functions.empty.url: missing; it should look like https://api.example.com/weather/{city}",
            "functions.empty.description: missing; the model reads it to know when to call",
            "functions.file.timeout_sec: `0` is not a time; give some seconds",
            "functions.file.method: there is no method `GETS`; did you mean `GET`?",
            "functions.file.effect: there is no effect `pur`; did you mean `pure`?",
            "functions.file.parameters_file: none.json cannot be read: No such file or directory (os error 2)",
            "functions.host.url: `http://{a}` stands before the path; only the path and the query may have placeholders",
            "functions.keys.header_env.X-B: not a text; put it in quotes",
            "functions.keys: `X-A` is in `headers` and in `header_env`",
            "functions.list.parameters: not a JSON Schema of `type` \"object\"",
            "functions.list.url: `h` is not an address; it should look like https://api.example.com/weather/{city}",
            "functions.web_search: this name is taken by a built-in tool; give it another name",
            "functions.web_search.colour: there is no such setting; there are `description`, `method`, `url`, `parameters`, `parameters_file`, `effect`, `headers`, `header_env`, `timeout_sec`, `require_approval`, `tenants`, `scopes`",
            "functions.keys.headers.X-A: the environment variable `NOBODY` is not set",
            "functions.keys.header_env.X-A: the environment variable `NOBODY` is not set",
        ],
    );
}
