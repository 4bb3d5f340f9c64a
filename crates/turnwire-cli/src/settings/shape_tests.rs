use serde_json::json;

use super::*;

fn told(schema: Json, text: &str) -> (Vec<String>, String) {
    let Json::Object(schema) = schema else { panic!("{schema}") };
    let (mut table, mut told) = (text.parse::<Table>().unwrap(), Vec::new());
    check_table("t", &mut table, &schema, &mut told);
    (told, table.to_string())
}

/// What is wrong is told once and taken out, at every depth.
#[test]
fn wrong_values_are_told_and_left_out() {
    let schema = json!({ "properties": {
        "text": { "type": "string" },
        "texts": { "type": "array", "items": { "type": "string" } },
        "number": { "type": "integer", "minimum": 1, "maximum": 9 },
        "way": { "anyOf": [{ "type": "string" }, { "type": "boolean" }] },
        "any": true,
        "tables": { "type": "array", "items": { "properties": { "a": { "type": "boolean" } },
            "type": "object", "additionalProperties": false } },
        "map": { "type": "object", "additionalProperties": { "type": "number" } },
    }, "additionalProperties": false });
    let text = "text = 1\ntexts = ['a', 2]\nnumber = 10\nway = 1\nany = 1\ntexd = 1\n\
                map = { a = 1, b = 'x', c = 0.5 }\n[[tables]]\na = true\n[[tables]]\na = 1\nb = 1\n";
    let (told, left) = told(schema, text);
    assert_eq!(
        told,
        [
            "t.map.b: not a number",
            "t.number: 10 is not a whole number from 1 to 9",
            "t.tables[1].a: not true or false",
            "t.tables[1].b: there is no such setting; there are `a`",
            "t.texd: there is no such setting; did you mean `text`?",
            "t.text: not a text; put it in quotes",
            "t.texts[1]: not a text; put it in quotes",
            "t.way: not a text or true or false",
        ]
    );
    assert_eq!(left, "any = 1\n\n[map]\na = 1\nc = 0.5\n\n[[tables]]\na = true\n\n[[tables]]\n");
}
