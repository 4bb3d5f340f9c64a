#![expect(dead_code, reason = "only the schemas of these types are looked at")]

use std::collections::BTreeMap;

use expect_test::{Expect, expect};
use schemars::JsonSchema;
use serde::Deserialize;

use super::schema_of;
use crate::NoArguments;

#[track_caller]
fn check<A: JsonSchema>(expected: Expect) {
    let schema = serde_json::to_string_pretty(&schema_of::<A>()).expect("a schema is JSON");
    expected.assert_eq(&schema);
}

#[test]
fn no_arguments_are_an_empty_closed_object() {
    #[derive(JsonSchema)]
    struct Nothing {}

    let expected = expect![[r#"
        {
          "type": "object",
          "properties": {},
          "additionalProperties": false
        }"#]];
    assert_eq!(schema_of::<NoArguments>(), schema_of::<Nothing>());
    check::<NoArguments>(expected);
}

#[derive(Deserialize, JsonSchema)]
struct Multiply {
    /// The first factor.
    a: f64,
    /// The second factor.
    b: f64,
}

#[test]
fn field_docs_become_descriptions() {
    check::<Multiply>(expect![[r#"
        {
          "type": "object",
          "properties": {
            "a": {
              "type": "number",
              "description": "The first factor."
            },
            "b": {
              "type": "number",
              "description": "The second factor."
            }
          },
          "required": [
            "a",
            "b"
          ],
          "additionalProperties": false
        }"#]]);
}

#[derive(Deserialize, JsonSchema)]
struct Search {
    query: String,
    title: Option<String>,
    #[serde(default)]
    most: u32,
    filters: Vec<Filter>,
}

#[derive(Deserialize, JsonSchema)]
struct Filter {
    field: String,
    order: Order,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Order {
    Ascending,
    Descending,
}

#[test]
fn what_is_inside_is_inlined_and_closed_too_and_a_field_called_title_stays() {
    check::<Search>(expect![[r#"
        {
          "type": "object",
          "properties": {
            "query": {
              "type": "string"
            },
            "title": {
              "type": [
                "string",
                "null"
              ]
            },
            "most": {
              "type": "integer",
              "default": 0,
              "minimum": 0
            },
            "filters": {
              "type": "array",
              "items": {
                "type": "object",
                "properties": {
                  "field": {
                    "type": "string"
                  },
                  "order": {
                    "type": "string",
                    "enum": [
                      "ascending",
                      "descending"
                    ]
                  }
                },
                "required": [
                  "field",
                  "order"
                ],
                "additionalProperties": false
              }
            }
          },
          "required": [
            "query",
            "filters"
          ],
          "additionalProperties": false
        }"#]]);
}

#[derive(Deserialize, JsonSchema)]
#[serde(tag = "shape", rename_all = "snake_case")]
enum Shape {
    Circle { radius: f64 },
    Square { side: f64 },
}

#[test]
fn a_choice_is_an_object_whose_variants_are_closed() {
    check::<Shape>(expect![[r#"
        {
          "oneOf": [
            {
              "type": "object",
              "properties": {
                "shape": {
                  "type": "string",
                  "const": "circle"
                },
                "radius": {
                  "type": "number"
                }
              },
              "required": [
                "shape",
                "radius"
              ],
              "additionalProperties": false
            },
            {
              "type": "object",
              "properties": {
                "shape": {
                  "type": "string",
                  "const": "square"
                },
                "side": {
                  "type": "number"
                }
              },
              "required": [
                "shape",
                "side"
              ],
              "additionalProperties": false
            }
          ],
          "type": "object"
        }"#]]);
}

#[derive(Deserialize, JsonSchema)]
struct Drawing {
    colour: Filter,
    #[serde(flatten)]
    shape: Shape,
}

#[test]
fn the_parts_of_a_flattened_object_stay_open() {
    check::<Drawing>(expect![[r#"
        {
          "type": "object",
          "properties": {
            "colour": {
              "type": "object",
              "properties": {
                "field": {
                  "type": "string"
                },
                "order": {
                  "type": "string",
                  "enum": [
                    "ascending",
                    "descending"
                  ]
                }
              },
              "required": [
                "field",
                "order"
              ],
              "additionalProperties": false
            }
          },
          "required": [
            "colour"
          ],
          "oneOf": [
            {
              "type": "object",
              "properties": {
                "shape": {
                  "type": "string",
                  "const": "circle"
                },
                "radius": {
                  "type": "number"
                }
              },
              "required": [
                "shape",
                "radius"
              ]
            },
            {
              "type": "object",
              "properties": {
                "shape": {
                  "type": "string",
                  "const": "square"
                },
                "side": {
                  "type": "number"
                }
              },
              "required": [
                "shape",
                "side"
              ]
            }
          ]
        }"#]]);
}

#[derive(Deserialize, JsonSchema)]
struct Labels {
    labels: BTreeMap<String, String>,
}

#[test]
fn a_map_stays_open() {
    check::<Labels>(expect![[r#"
        {
          "type": "object",
          "properties": {
            "labels": {
              "type": "object",
              "additionalProperties": {
                "type": "string"
              }
            }
          },
          "required": [
            "labels"
          ],
          "additionalProperties": false
        }"#]]);
}

#[derive(Deserialize, JsonSchema)]
#[schemars(extend("additionalProperties" = true))]
struct Open {
    known: String,
}

#[test]
fn a_type_can_stay_open_on_purpose() {
    check::<Open>(expect![[r#"
        {
          "type": "object",
          "properties": {
            "known": {
              "type": "string"
            }
          },
          "required": [
            "known"
          ],
          "additionalProperties": true
        }"#]]);
}

#[derive(Deserialize, JsonSchema)]
struct Tree {
    name: String,
    children: Vec<Tree>,
}

#[test]
fn a_recursive_type_keeps_the_one_reference_it_needs() {
    check::<Tree>(expect![[r##"
        {
          "type": "object",
          "properties": {
            "name": {
              "type": "string"
            },
            "children": {
              "type": "array",
              "items": {
                "$ref": "#"
              }
            }
          },
          "required": [
            "name",
            "children"
          ],
          "additionalProperties": false
        }"##]]);
}
