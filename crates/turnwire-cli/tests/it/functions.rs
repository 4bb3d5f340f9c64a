//! Functions of the settings and models that cannot call, through the real binary.

use std::{
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    thread,
};

use serde_json::{Value, json};

use crate::world::{Server, World};

/// An HTTP interface that knows the weather, and tells what it was asked.
fn weather() -> (String, thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let asked = thread::spawn(move || {
        let (connection, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(connection);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert_ne!(reader.read_line(&mut head).unwrap(), 0, "cut off: {head}");
        }
        let body = "{\"degrees\":22}";
        let answer = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close";
        let length = body.len();
        write!(reader.get_mut(), "{answer}\r\ncontent-length: {length}\r\n\r\n{body}").unwrap();
        head
    });
    (address, asked)
}

fn settings(model: &Server, weather: &str, more: &str) -> String {
    format!(
        "[models.default]\nkind = \"chat_completions\"\nbase_url = \"{}\"\n{more}\n\
         [functions.weather]\ndescription = \"Tells the weather.\"\nmethod = \"GET\"\n\
         url = \"{weather}/weather/{{city}}\"\neffect = \"pure\"\n\
         header_env = {{ Authorization = \"WEATHER_KEY\" }}\n\
         [functions.weather.parameters]\ntype = \"object\"\nrequired = [\"city\"]\n\
         properties = {{ city = {{ type = \"string\" }} }}\n",
        model.url()
    )
}

/// R3, A6: a function of the settings is offered, called with its key, and its answer told.
#[test]
fn a_function_of_the_settings_is_called() {
    let model = Server::new();
    let (address, asked) = weather();
    let world = World::new()
        .with_file("turnwire.toml", &settings(&model, &address, ""))
        .with("WEATHER_KEY", "Bearer sk-weather");
    let running = world.start(&["run", "--json", "How warm is it in Paris?"]);
    let mut question = model.question();
    let tool = &question.body["tools"][0]["function"];
    assert_eq!(
        (&tool["name"], &tool["description"]),
        (&json!("weather"), &json!("Tells the weather."))
    );
    question.begin();
    question.call_with("weather", "{\"city\":\"Paris / FR\"}");
    let head = asked.join().unwrap();
    assert!(head.starts_with("GET /weather/Paris%20%2F%20FR HTTP/1.1\r\n"), "{head}");
    assert!(head.contains("authorization: Bearer sk-weather\r\n"), "{head}");
    assert!(head.contains("idempotency-key: run_"), "{head}");
    let mut question = model.question();
    let messages = question.body["messages"].as_array().unwrap();
    assert_eq!(messages.last().unwrap()["content"], "{\"degrees\":22}");
    question.begin();
    question.say("22 degrees.");
    question.end();
    let done = running.finish();
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert!(!done.stdout.contains("sk-weather"));
}

/// A model that cannot call tools calls one all the same, by an answer that fits a schema.
#[test]
fn a_model_that_cannot_call_calls_by_schema() {
    let model = Server::new();
    let (address, asked) = weather();
    let file = settings(&model, &address, "tool_calling = \"json_schema\"");
    let world =
        World::new().with_file("turnwire.toml", &file).with("WEATHER_KEY", "Bearer sk-weather");
    let running = world.start(&["run", "How warm is it in Paris?"]);
    let mut question = model.question();
    assert_eq!(question.body.get("tools"), None);
    let schema = &question.body["response_format"]["json_schema"]["schema"];
    assert_eq!(schema["anyOf"].as_array().unwrap().len(), 2, "{schema}");
    question.begin();
    question.say("{\"tool\": \"weather\", ");
    question.say("\"arguments\": {\"city\": \"Paris\"}}");
    question.end();
    let head = asked.join().unwrap();
    assert!(head.starts_with("GET /weather/Paris HTTP/1.1\r\n"), "{head}");
    let mut question = model.question();
    let messages: Vec<Value> = question.body["messages"].as_array().unwrap().clone();
    let [.., called, returned] = messages.as_slice() else { panic!("{messages:?}") };
    assert_eq!(called["content"], "{\"tool\":\"weather\",\"arguments\":{\"city\":\"Paris\"}}");
    let told = returned["content"].as_str().unwrap();
    assert!(told.starts_with("The tool `weather` returned:\n{\"degrees\":22}\n"), "{told}");
    question.begin();
    question.say("{\"answer\": \"22 deg");
    question.say("rees.\"}");
    question.end();
    let done = running.finish();
    assert_eq!((done.code, done.stdout.as_str()), (Some(0), "22 degrees.\n"), "{}", done.stderr);
}
