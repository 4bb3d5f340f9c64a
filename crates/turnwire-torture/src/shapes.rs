//! Kinds of runs: the model's script, and the commands sent meanwhile.

use serde_json::{Value, json};

use crate::dice::Dice;

/// A run to start.
#[derive(Debug, Clone, PartialEq)]
pub struct Shape {
    /// Its name in reports.
    pub name: &'static str,
    /// The endpoint of its request.
    pub endpoint: Endpoint,
    /// The prompt, which contains the model's script.
    pub script: String,
    /// The last text of the model.
    pub answer: String,
    /// Whether it uses the tool server.
    pub uses_tools: bool,
    /// Delay in milliseconds after which it is cancelled.
    pub cancel_after_ms: Option<u64>,
    /// Number of consecutive runs in one conversation, including this one; 0 means no conversation.
    pub n_in_conversation: u64,
}

/// The endpoint of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endpoint {
    /// `POST /v1/responses` with `stream`.
    Stream,
    /// `POST /v1/responses` with `background`.
    Background,
    /// `POST /v1/responses` with both.
    BackgroundStream,
    /// `POST /chat/stream`.
    Chat,
}

type Maker = fn(&mut Dice) -> Shape;

impl Shape {
    /// Returns a random shape.
    pub fn any(dice: &mut Dice) -> Self {
        let makers: [(u64, Maker); 9] = [
            (22, plain),
            (14, one_tool),
            (12, parallel_tools),
            (10, several_turns),
            (8, long_tool),
            (10, approval),
            (10, cancelled),
            (12, conversation),
            (2, flood),
        ];
        let make = dice.weigh(&makers).copied().unwrap_or(plain);
        make(dice)
    }

    /// Returns a short run without tools or approvals.
    pub fn brief(dice: &mut Dice) -> Self {
        let makers: [(u64, Maker); 4] =
            [(1, one_tool), (1, parallel_tools), (1, several_turns), (1, brief_words)];
        let make = dice.weigh(&makers).copied().unwrap_or(brief_words);
        make(dice)
    }

    /// Returns a text that takes about `millis` milliseconds.
    pub fn lasting(dice: &mut Dice, millis: u64) -> Self {
        let pieces = words(dice, millis / 20);
        Self {
            endpoint: Endpoint::Stream,
            ..Self::new("lasting", dice, vec![spoken(&pieces, 20)], pieces)
        }
    }

    fn new(name: &'static str, dice: &mut Dice, turns: Vec<Value>, last: Vec<String>) -> Self {
        let doors = [
            (4, Endpoint::Stream),
            (2, Endpoint::Background),
            (1, Endpoint::BackgroundStream),
            (3, Endpoint::Chat),
        ];
        Self {
            name,
            endpoint: dice.weigh(&doors).copied().unwrap_or(Endpoint::Stream),
            script: json!({ "turns": turns }).to_string(),
            answer: last.concat(),
            uses_tools: false,
            cancel_after_ms: None,
            n_in_conversation: 0,
        }
    }

    fn with_tools(self) -> Self {
        Self { uses_tools: true, ..self }
    }
}

/// Returns distinct words, so that a lost or repeated one shows.
fn words(dice: &mut Dice, n_words: u64) -> Vec<String> {
    let salt = dice.between(1_000, 9_999);
    (0..n_words.max(1)).map(|n| format!("w{salt}.{n} ")).collect()
}

fn spoken(pieces: &[String], pace_ms: u64) -> Value {
    json!({ "text": pieces, "pace_ms": pace_ms })
}

fn call(dice: &mut Dice, tools: &[&str], least_ms: u64, most_ms: u64) -> Value {
    let tool = dice.pick(tools).copied().unwrap_or("look");
    // Calls must differ, or the run would be stopped for repeating itself.
    let arguments = json!({ "ms": dice.between(least_ms, most_ms), "n": dice.between(0, 1 << 40) });
    json!({ "name": tool, "arguments": arguments })
}

const TOOLS: [&str; 4] = ["look", "deposit", "send", "sly"];

fn plain(dice: &mut Dice) -> Shape {
    let n_words = dice.between(20, 200);
    let (pieces, pace) = (words(dice, n_words), dice.between(1, 4));
    Shape::new("plain", dice, vec![spoken(&pieces, pace)], pieces)
}

fn brief_words(dice: &mut Dice) -> Shape {
    let pieces = words(dice, 12);
    Shape::new("brief_words", dice, vec![spoken(&pieces, 5)], pieces)
}

fn one_tool(dice: &mut Dice) -> Shape {
    let call = call(dice, &TOOLS, 5, 150);
    let last = words(dice, 20);
    let turns = vec![json!({ "calls": [call] }), spoken(&last, 3)];
    Shape::new("one_tool", dice, turns, last).with_tools()
}

fn parallel_tools(dice: &mut Dice) -> Shape {
    let calls: Vec<Value> = (0..3).map(|_| call(dice, &TOOLS, 5, 200)).collect();
    let (first, last) = (words(dice, 5), words(dice, 20));
    let asking = json!({ "text": first, "calls": calls, "pace_ms": 3 });
    Shape::new("parallel_tools", dice, vec![asking, spoken(&last, 3)], last).with_tools()
}

fn several_turns(dice: &mut Dice) -> Shape {
    let n_turns = dice.between(2, 4);
    let mut turns: Vec<Value> = (0..n_turns)
        .map(|_| {
            let (said, call) = (words(dice, 5), call(dice, &TOOLS, 5, 60));
            json!({ "text": said, "calls": [call], "pace_ms": 2 })
        })
        .collect();
    let last = words(dice, 30);
    turns.push(spoken(&last, 2));
    Shape::new("several_turns", dice, turns, last).with_tools()
}

fn long_tool(dice: &mut Dice) -> Shape {
    let call = call(dice, &TOOLS, 600, 1_500);
    let last = words(dice, 10);
    let turns = vec![json!({ "calls": [call] }), spoken(&last, 3)];
    Shape::new("long_tool", dice, turns, last).with_tools()
}

fn approval(dice: &mut Dice) -> Shape {
    let call = call(dice, &["risky"], 5, 100);
    let last = words(dice, 10);
    let turns = vec![json!({ "calls": [call] }), spoken(&last, 3)];
    let shape = Shape::new("approval", dice, turns, last).with_tools();
    // Only there does a run wait for an approval.
    Shape { endpoint: Endpoint::Chat, ..shape }
}

fn cancelled(dice: &mut Dice) -> Shape {
    let said = words(dice, 10);
    let last = words(dice, 10);
    let turns = if dice.chance(50) {
        vec![json!({ "text": said, "pace_ms": 5, "finish": "never" })]
    } else {
        let call = call(dice, &TOOLS, 30_000, 30_000);
        vec![json!({ "text": said, "calls": [call], "pace_ms": 5 }), spoken(&last, 3)]
    };
    let cancel_after_ms = Some(dice.between(0, 1_200));
    Shape { cancel_after_ms, ..Shape::new("cancelled", dice, turns, last).with_tools() }
}

fn conversation(dice: &mut Dice) -> Shape {
    let n_in_conversation = dice.between(2, 4);
    let shape = if dice.chance(50) { one_tool(dice) } else { plain(dice) };
    Shape { name: "conversation", n_in_conversation, ..shape }
}

/// A run with more output than the buffers of a slow reader hold.
fn flood(dice: &mut Dice) -> Shape {
    let padding = "x".repeat(400);
    let pieces: Vec<String> =
        words(dice, 800).into_iter().map(|word| format!("{word}{padding} ")).collect();
    Shape::new("flood", dice, vec![spoken(&pieces, 0)], pieces)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::Shape;
    use crate::dice::Dice;

    #[test]
    fn all_shapes_come_up_and_are_scripts() {
        let mut dice = Dice::new(3);
        let shapes: Vec<Shape> = (0..2_000).map(|_| Shape::any(&mut dice)).collect();
        let names: BTreeSet<&str> = shapes.iter().map(|shape| shape.name).collect();
        assert_eq!(names.len(), 9, "{names:?}");
        for shape in shapes {
            let script: serde_json::Value = serde_json::from_str(&shape.script).unwrap();
            assert!(script["turns"].as_array().is_some_and(|turns| !turns.is_empty()));
            assert!(!shape.answer.is_empty());
        }
    }
}
