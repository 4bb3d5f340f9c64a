use futures::TryStreamExt;
use turnwire_contract::{CallId, Finish, Role};

use super::*;
use crate::{Scripted, Turn, sample_prompt::plain_prompt};

const GRAMMAR: &str = "start: /[a-z]+/";

fn custom(name: &str, format: Option<InputFormat>) -> Arc<ToolSpec> {
    let kind = ToolKind::Custom;
    Arc::new(ToolSpec { kind, format, ..ToolSpec::new(name, "Patches files.") })
}

fn prompt() -> Prompt {
    let grammar =
        InputFormat::Grammar { syntax: "lark".to_owned(), definition: GRAMMAR.to_owned() };
    let call = Item::Call {
        call_id: CallId::new("call_0"),
        name: "apply_patch".to_owned(),
        arguments: "*** \"old\"\n".to_owned(),
        kind: ToolKind::Custom,
        server: None,
    };
    Prompt {
        items: vec![Arc::new(Item::user("Hi.")), Arc::new(call)],
        tools: vec![custom("apply_patch", Some(grammar)), custom("say", Some(InputFormat::Text))],
        ..plain_prompt()
    }
}

/// Returns the parts for a model that writes `pieces` as the arguments of `apply_patch`.
async fn unpacked(pieces: &[&str]) -> String {
    let mut turn = Turn::new().part(ModelPart::CallStarted {
        key: 0,
        id: None,
        name: "apply_patch".to_owned(),
    });
    for piece in pieces {
        turn = turn.part(ModelPart::CallArguments { key: 0, text: (*piece).to_owned() });
    }
    let model = CustomToolsAsFunctions::new(Arc::new(Scripted::new([turn])));
    let parts: Vec<ModelPart> = model.stream(prompt()).await.unwrap().try_collect().await.unwrap();
    assert_eq!(parts.last(), Some(&ModelPart::Finished(Finish::CalledTools)));
    let text = |part: &ModelPart| match part {
        ModelPart::CallArguments { key: 0, text } => Some(text.clone()),
        _ => None,
    };
    parts.iter().filter_map(text).collect::<Vec<_>>().join("|")
}

#[tokio::test]
async fn a_custom_tool_is_offered_as_a_function_with_one_text() {
    let scripted = Scripted::new([Turn::new().text("Done.")]);
    let model = CustomToolsAsFunctions::new(Arc::new(scripted.clone()));
    let parts: Vec<ModelPart> = model.stream(prompt()).await.unwrap().try_collect().await.unwrap();
    assert_eq!(parts[0], ModelPart::Text("Done.".to_owned()), "other parts pass through");
    let told = &scripted.prompts()[0];
    let [patch, say] = told.tools.as_slice() else { panic!("{:?}", told.tools) };
    assert_eq!((patch.kind, &patch.format), (ToolKind::Client, &None));
    assert_eq!(patch.parameters["required"], json!(["input"]));
    assert_eq!(
        patch.description,
        "Patches files.\n\nThe input must fit this grammar, written in lark:\n\nstart: /[a-z]+/"
    );
    assert_eq!(say.description, "Patches files.");
    let Item::Call { arguments, kind, .. } = &*told.items[1] else { panic!("{:?}", told.items) };
    assert_eq!(*kind, ToolKind::Client);
    assert_eq!(arguments, r#"{"input":"*** \"old\"\n"}"#);
    assert!(matches!(&*told.items[0], Item::Message { role: Role::User, .. }));
}

#[test]
fn what_it_does_with_custom_tools_is_told() {
    let model: Arc<dyn Model> = Arc::new(Scripted::demo());
    let of = |model: CustomToolsAsFunctions| model.capabilities().custom_tools;
    assert_eq!(of(CustomToolsAsFunctions::new(model.clone())), CustomTools::AsFunctions);
    assert_eq!(of(CustomToolsAsFunctions::refusing(model)), CustomTools::Refused);
}

#[tokio::test]
async fn the_input_is_unpacked_while_it_comes() {
    assert_eq!(
        unpacked(&[r#"{"input":"#, r#""*** Be"#, r"gin\n", r#"end"}"#]).await,
        "*** Be|gin\n|end"
    );
    assert_eq!(unpacked(&["{ \"inp", "ut\" : \"", "a", "b\"", " }"]).await, "a|b");
    assert_eq!(unpacked(&["{\"input\":\"\"}"]).await, "");
}

/// The input does not depend on how the arguments are split, and no character is split.
#[tokio::test]
async fn the_input_is_the_same_however_it_is_cut() {
    let input = "tab\t \"quoted\" \\ back\u{1F600} ü\n\u{2028}end";
    let written = json!({ INPUT: input }).to_string().replace('\u{1F600}', "\\ud83d\\ude00");
    for place in (0..=written.len()).filter(|place| written.is_char_boundary(*place)) {
        let (a, b) = written.split_at(place);
        assert_eq!(unpacked(&[a, b]).await.replace('|', ""), input, "cut at {place}");
    }
    let letters: Vec<String> = written.chars().map(String::from).collect();
    let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
    assert_eq!(unpacked(&letters).await.replace('|', ""), input);
}

/// Arguments that are not of the form `{"input": "…"}` are used as the input.
#[tokio::test]
async fn what_is_not_in_the_form_is_taken_as_it_is() {
    assert_eq!(unpacked(&["*** Begin\n", "*** End"]).await, "*** Begin\n*** End");
    assert_eq!(unpacked(&[r#"{"patch": "x"}"#]).await, r#"{"patch": "x"}"#);
    assert_eq!(unpacked(&[r#"{"note":1,"input":"#, r#""late"}"#]).await, "late");
    assert_eq!(unpacked(&[r#"{"input":{"a":1}}"#]).await, r#"{"a":1}"#);
    assert_eq!(unpacked(&["{}"]).await, "", "no arguments at all");
    assert_eq!(unpacked(&["{\"input\":\"raw\nbreak\"}"]).await, "raw\nbreak");
    assert_eq!(unpacked(&[r#"{"input":"cut in an escape \u00"#]).await, "cut in an escape ");
}
