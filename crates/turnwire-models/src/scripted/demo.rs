//! The demo model. It multiplies, and it calls any tool that the prompt names, with the JSON object
//! in the prompt. Asked about a release and a branch, it plays the story in [`story`].
//!
//! Its answers say that it is a script.

use serde_json::{Map, Number, Value};
use turnwire_contract::{CallId, Content, Item, Prompt, Role, ToolChoice, ToolSpec};

use super::{
    Turn, story,
    turn::{pieces_of, say},
};

pub(super) fn turn_for(prompt: &Prompt) -> Turn {
    if let Some(turn) = story::end(prompt) {
        return turn;
    }
    match prompt.items.last().map(AsRef::as_ref) {
        Some(Item::CallResult { call_id, output, failed, .. }) => {
            say(&sentence_about_result(prompt, call_id, output.trim(), *failed))
        }
        _ => answer(prompt, &last_words_of_user(prompt)),
    }
}

fn answer(prompt: &Prompt, question: &str) -> Turn {
    if let Some(turn) = story::begin(prompt, question) {
        return turn;
    }
    if let Some(name) = named_tool(prompt, question).filter(|name| *name != "multiply") {
        let pieces = pieces_of(&Value::Object(object_in(question)).to_string());
        return say(&format!("I will use {name}. ")).call_raw(name, pieces);
    }
    let task = asks_to_multiply(question).then(|| two_numbers(question)).flatten();
    match (task, multiply_tool(prompt)) {
        (Some((a, b)), Some(tool)) => {
            let (first, second) = argument_names(tool);
            let sentence = format!("I will multiply {a} and {b}. ");
            let arguments = Map::from_iter([(first, Value::Number(a)), (second, Value::Number(b))]);
            let pieces = pieces_of(&Value::Object(arguments).to_string());
            say(&sentence).call_raw(&tool.name, pieces)
        }
        _ if question.is_empty() => say(SELF_DESCRIPTION),
        _ => say(&format!("You said: “{question}”. {SELF_DESCRIPTION}")),
    }
}

const SELF_DESCRIPTION: &str = "I am only a scripted demo model, so all I can do is multiply, or \
                                use a tool that you name. Try asking me: What is 5 times 4?";

fn sentence_about_result(prompt: &Prompt, call_id: &CallId, output: &str, failed: bool) -> String {
    let call = prompt.items.iter().rev().find_map(|item| match item.as_ref() {
        Item::Call { call_id: id, name, arguments, .. } if id == call_id => Some((name, arguments)),
        _ => None,
    });
    match call {
        Some((name, _)) if failed => format!("The tool `{name}` did not work: {output}"),
        None if failed => format!("The tool did not work: {output}"),
        Some((name, arguments)) => match factors(name, arguments) {
            Some((a, b)) => format!("{a} times {b} is {output}."),
            None => format!("The tool `{name}` answered: {output}"),
        },
        None => format!("The tool answered: {output}"),
    }
}

fn factors(name: &str, arguments: &str) -> Option<(Value, Value)> {
    let arguments: Map<String, Value> = serde_json::from_str(arguments).ok()?;
    let mut values = arguments.into_iter().map(|(_, value)| value);
    match (values.next(), values.next(), values.next()) {
        (Some(a @ Value::Number(_)), Some(b @ Value::Number(_)), None) if name == "multiply" => {
            Some((a, b))
        }
        _ => None,
    }
}

/// Returns the offered tool whose name is a word of the prompt.
fn named_tool<'a>(prompt: &'a Prompt, question: &str) -> Option<&'a str> {
    if prompt.tool_choice == ToolChoice::None {
        return None;
    }
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    let mut names = prompt.tools.iter().map(|tool| tool.name.as_str());
    names.find(|name| question.split(|c| !is_word(c)).any(|word| word == *name))
}

/// Returns the JSON object in the prompt; an empty one if there is none.
fn object_in(question: &str) -> Map<String, Value> {
    let object = question.find('{').zip(question.rfind('}'));
    let object = object.and_then(|(begin, end)| question.get(begin..=end));
    object.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

fn multiply_tool(prompt: &Prompt) -> Option<&ToolSpec> {
    if prompt.tool_choice == ToolChoice::None {
        return None;
    }
    prompt.tools.iter().find(|tool| tool.name == "multiply").map(AsRef::as_ref)
}

/// Returns the names of the tool's first two arguments.
fn argument_names(tool: &ToolSpec) -> (String, String) {
    let properties = tool.parameters.get("properties").and_then(Value::as_object);
    let mut names = properties.into_iter().flat_map(Map::keys).cloned();
    match (names.next(), names.next()) {
        (Some(first), Some(second)) => (first, second),
        _ => ("a".to_owned(), "b".to_owned()),
    }
}

fn last_words_of_user(prompt: &Prompt) -> String {
    let content = prompt.items.iter().rev().find_map(|item| match item.as_ref() {
        Item::Message { role: Role::User, content } => Some(content),
        _ => None,
    });
    let texts = content.into_iter().flatten().filter_map(|content| match content {
        Content::Text { text } => Some(text.trim()),
        Content::Refusal { .. } | Content::Image { .. } | Content::File { .. } => None,
    });
    texts.collect::<Vec<_>>().join(" ")
}

fn asks_to_multiply(question: &str) -> bool {
    let lower = question.to_lowercase();
    let mut words = lower.split(|c: char| !c.is_alphabetic());
    lower.contains(['*', '×'])
        || words
            .any(|word| word.starts_with("multipl") || matches!(word, "times" | "product" | "x"))
}

fn two_numbers(question: &str) -> Option<(Number, Number)> {
    let mut numbers = question
        .split(|c: char| !c.is_ascii_digit() && c != '.' && c != '-')
        .filter_map(|piece| number(piece.trim_end_matches(['.', '-'])));
    Some((numbers.next()?, numbers.next()?))
}

fn number(text: &str) -> Option<Number> {
    match text.parse::<i64>() {
        Ok(whole) => Some(whole.into()),
        Err(_) => text.parse::<f64>().ok().and_then(Number::from_f64),
    }
}
