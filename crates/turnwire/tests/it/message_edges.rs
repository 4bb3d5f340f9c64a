//! S4-X: the edges of the message list: stages, order, late and split pieces, interruptions, and
//! what stays visible after a stop.

use std::time::Duration;

use turnwire::{Event, MessageState, ModelError, Role, Stage};
use turnwire_models::Turn;

use crate::{
    helpers::{in_time, returns, scripted},
    messages::{cancelled, contents, lists, stages, updates, watched},
};

/// S4-X.
#[tokio::test]
async fn stages_only_go_forward_and_tools_without_arguments_just_start_and_end() {
    let turns = [
        Turn::new()
            .call_raw("look", [r#"{"query""#, r#":"rust"}"#])
            .call_raw("missing", [""; 0])
            .call_raw("bare", [""; 0]),
        Turn::new().text("Done."),
    ];
    let agent = scripted(turns)
        .tool(returns("look", "3 notes"))
        .tool(returns("bare", "ok"))
        .build()
        .expect("it can be made");
    let (_, told) = watched(&agent).await;
    let all = |name| stages(&told, name);
    assert_eq!(
        all("look"),
        [Stage::Start, Stage::Streaming, Stage::Streaming, Stage::Running, Stage::End]
    );
    assert_eq!(all("missing"), [Stage::Start, Stage::End]);
    assert_eq!(all("bare"), [Stage::Start, Stage::Running, Stage::End]);
}

/// S4-X.
#[tokio::test]
async fn what_was_said_stays_visible_after_a_stop() {
    let turn = Turn::new().text_in(["Once ", "upon "]).wait_forever();
    let said_upon =
        |event: &Event| matches!(event, Event::TextAdded { text, .. } if text == "upon ");
    let told = cancelled(turn, said_upon).await;
    let message = lists(&told).last().and_then(|list| list.last()).expect("there is a message");
    assert_eq!((message.content.as_str(), message.state), ("Once upon ", MessageState::Cut));
}

/// S4-X: However late the chunks are and however they are gathered, a list never shows less than
/// the
/// one before, and the last one shows everything.
#[tokio::test]
async fn lists_only_grow_and_late_chunks_keep_their_order() {
    let pause = Duration::from_millis(40);
    let turn = Turn::new().text("Once ").pause(pause).text("upon ").pause(pause).text("a time.");
    let agent = scripted([turn]).build().expect("it can be made");
    let (_, told) = watched(&agent).await;
    let shown: Vec<_> = lists(&told)
        .iter()
        .filter_map(|list| list.iter().find(|message| message.role == Role::Assistant))
        .map(|message| message.content.as_str())
        .collect();
    let so_far = ["", "Once ", "Once upon ", "Once upon a time."];
    assert!(shown.iter().all(|text| so_far.contains(text)), "{shown:?}");
    assert!(shown.is_sorted_by_key(|text| text.len()), "{shown:?}");
    assert_eq!((shown.first(), shown.last()), (so_far.first(), so_far.last()));
}

/// S4-X: pieces that are cut in the middle of what a person sees as one character come as they
/// are, in order, and the list never takes anything back.
#[tokio::test]
async fn split_pieces_come_in_order() {
    // A family of four joined by U+200D, a letter with its accent behind it, a flag of two letters.
    let pieces = ["Hi 👨", "\u{200d}👩", "\u{200d}👧", "\u{200d}", "👦 e", "\u{301} 🇩", "🇪."];
    let arguments = ["{\"text\":\"e", "\u{301} 🇩", "🇪\"}"];
    let turns = [Turn::new().text_in(pieces).call_raw("say", arguments), Turn::new().text("Ok.")];
    let agent = scripted(turns).tool(returns("say", "said")).build().expect("it can be made");
    let (_, told) = watched(&agent).await;
    let told_pieces: Vec<&str> = contents(&told).iter().map(|(piece, _)| *piece).collect();
    assert_eq!(told_pieces, [&pieces[..], &["Ok."]].concat());
    let chunks: Vec<&str> = updates(&told)
        .iter()
        .filter(|update| update.stage == Stage::Streaming)
        .filter_map(|update| update.parameters_chunk.as_deref())
        .collect();
    assert_eq!(chunks, arguments);
    let shown: Vec<String> = lists(&told)
        .iter()
        .filter_map(|list| list.iter().find(|message| message.role == Role::Assistant))
        .map(|message| message.content.clone())
        .collect();
    for (before, after) in shown.iter().zip(shown.iter().skip(1)) {
        assert!(after.starts_with(before.as_str()), "{before:?} became {after:?}");
    }
    assert_eq!(shown.last(), Some(&pieces.concat()));
}

/// S4-X: a model that is interrupted by its provider's limits: what was said stays visible, cut,
/// and
/// what comes after the next try stands in a message of its own.
#[tokio::test]
async fn an_interruption_leaves_what_was_said() {
    let limited = || ModelError::RateLimited { message: "slow down".to_owned(), retry_after: None };
    let turns = [
        Turn::fails(limited()),
        Turn::new().text_in(["Once ", "upon "]).ends_with(limited()),
        Turn::new().text("Never comes."),
    ];
    let agent = scripted(turns).build().expect("it can be made");
    let (run, told) = watched(&agent).await;
    let list = lists(&told).last().copied().expect("there is a list");
    let said: Vec<_> = list
        .iter()
        .filter(|message| message.role == Role::Assistant)
        .map(|message| (message.content.as_str(), message.state))
        .collect();
    assert_eq!(said, [("Once upon ", MessageState::Cut)]);
    let failed =
        in_time(run.reply()).await.expect_err("an answer that was begun is not begun anew");
    assert!(matches!(failed, turnwire::Error::Failed { .. }), "{failed:?}");
}
