use rmcp::model::CallToolResult;
use serde_json::{Value, json};
use turnwire_contract::{Image, ToolError, ToolOutput};

use super::{MAX_IMAGE_BYTES, MAX_IMAGES, MAX_TEXT_BYTES, TEXT_TRUNCATED, convert, limited};

fn reading(result: Value) -> Result<ToolOutput, ToolError> {
    let result: CallToolResult = serde_json::from_value(result).unwrap();
    convert(result)
}

fn picture(base64: &str) -> Image {
    Image { media_type: "image/png".to_owned(), base64: base64.to_owned() }
}

#[test]
fn texts_are_joined_and_pictures_kept() {
    let output = reading(json!({ "content": [
        { "type": "text", "text": "One." },
        { "type": "image", "data": "AAAA", "mimeType": "image/png" },
        { "type": "text", "text": "Two." },
    ]}));
    let expected = ToolOutput { images: vec![picture("AAAA")], ..ToolOutput::text("One.\nTwo.") };
    assert_eq!(output, Ok(expected));
}

#[test]
fn what_is_not_text_becomes_a_line_to_read() {
    let output = reading(json!({ "content": [
        { "type": "resource_link", "uri": "file:///a", "name": "a", "description": "the first" },
        { "type": "resource_link", "uri": "file:///b", "name": "b", "title": "The second" },
        { "type": "resource", "resource": { "uri": "file:///c", "text": "inside" } },
        { "type": "resource", "resource": { "uri": "file:///d", "blob": "BBBB", "mimeType": "image/png" } },
        { "type": "resource", "resource": { "uri": "file:///e", "blob": "CCCC", "mimeType": "application/zip" } },
        { "type": "audio", "data": "DDDD", "mimeType": "audio/wav" },
    ]}));
    let text = "a: file:///a (the first)\n\
                The second: file:///b\n\
                file:///c:\ninside\n\
                file:///d\n\
                file:///e: [data of type application/zip, not shown]\n\
                [sound of type audio/wav, not shown]";
    let expected = ToolOutput { images: vec![picture("BBBB")], ..ToolOutput::text(text) };
    assert_eq!(output, Ok(expected));
}

#[test]
fn data_is_kept_and_read_out_if_there_are_no_words() {
    let data = json!({ "celsius": 21.5 });
    let output = reading(json!({ "content": [], "structuredContent": data }));
    let expected =
        ToolOutput { structured: Some(data.clone()), ..ToolOutput::text("{\"celsius\":21.5}") };
    assert_eq!(output, Ok(expected));
    let message = json!([{ "type": "text", "text": "Warm." }]);
    let output = reading(json!({ "content": message, "structuredContent": data }));
    assert_eq!(output, Ok(ToolOutput { structured: Some(data), ..ToolOutput::text("Warm.") }));
}

/// I4, L7: only an explicit success is a success.
#[test]
fn an_error_is_a_failure_with_or_without_words() {
    let message = json!([{ "type": "text", "text": "No such branch." }]);
    let failed = reading(json!({ "content": message, "isError": true }));
    assert_eq!(failed, Err(ToolError::failed("No such branch.")));
    let failed = reading(json!({ "content": [], "isError": true }));
    let expected = "the tool failed without a message";
    assert_eq!(failed, Err(ToolError::failed(expected)));
    let data = json!({ "code": 7 });
    let failed = reading(json!({ "content": [], "structuredContent": data, "isError": true }));
    assert_eq!(failed, Err(ToolError::failed("{\"code\":7}")));
    let fine = reading(json!({ "content": [], "isError": false }));
    assert_eq!(fine, Ok(ToolOutput::default()));
}

/// A13: the text of results and failures is limited, and truncation is reported.
#[test]
fn text_is_taken_up_to_a_limit() {
    let content = |texts: &[&str]| {
        let block = |text: &&str| json!({ "type": "text", "text": text });
        texts.iter().map(block).collect::<Value>()
    };
    let half = "x".repeat(MAX_TEXT_BYTES / 2);
    let fits = reading(json!({ "content": content(&[&half, &half[1..]]) })).unwrap();
    assert_eq!(fits.text.len(), MAX_TEXT_BYTES);
    assert!(!fits.text.contains(TEXT_TRUNCATED));

    let more = content(&[&half, &half, "and more"]);
    let cut = reading(json!({ "content": more })).unwrap().text;
    assert_eq!(cut.len(), MAX_TEXT_BYTES + 1 + TEXT_TRUNCATED.len());
    assert!(cut.ends_with(&format!("x\n{TEXT_TRUNCATED}")));
    let failed = reading(json!({ "content": more, "isError": true }));
    assert_eq!(failed, Err(ToolError::Failed(cut)));

    let crabs = limited(&format!("x{}", "🦀".repeat(MAX_TEXT_BYTES / 4)));
    assert_eq!(crabs.len(), MAX_TEXT_BYTES - 3 + 1 + TEXT_TRUNCATED.len(), "whole characters");
}

/// A13: structured content is limited, counted as serialized JSON.
#[test]
fn data_is_taken_up_to_a_limit() {
    let data = json!("x".repeat(MAX_TEXT_BYTES - 2));
    let fits = reading(json!({ "content": [], "structuredContent": data })).unwrap();
    assert_eq!(fits.structured, Some(data.clone()));
    let word = json!([{ "type": "text", "text": "a" }]);
    let cut = reading(json!({ "content": word, "structuredContent": data })).unwrap();
    let message = "a\n[The data is left out: a result may have 16 MiB of text and data.]";
    assert_eq!(cut, ToolOutput::text(message));
}

/// A13: the number and size of images are limited.
#[test]
fn pictures_are_taken_up_to_a_limit() {
    let image = |data: &str| json!({ "type": "image", "data": data, "mimeType": "image/png" });
    let biggest = "A".repeat(MAX_IMAGE_BYTES);
    let output = reading(json!({ "content": [image(&biggest), image(&format!("{biggest}A"))] }));
    let message = "[One picture is left out: a result may have 16, each of 4 MiB in base64.]";
    let expected = ToolOutput { images: vec![picture(&biggest)], ..ToolOutput::text(message) };
    assert_eq!(output, Ok(expected));

    let many = reading(json!({ "content": vec![image("AAAA"); MAX_IMAGES] })).unwrap();
    assert_eq!((many.images.len(), many.text.as_str()), (MAX_IMAGES, ""));
    let more = reading(json!({ "content": vec![image("AAAA"); MAX_IMAGES + 2] })).unwrap();
    let message = "[2 pictures are left out: a result may have 16, each of 4 MiB in base64.]";
    assert_eq!((more.images.len(), more.text.as_str()), (MAX_IMAGES, message));
}
