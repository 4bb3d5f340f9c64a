use serde_json::{Map, Value, json};
use turnwire_contract::{Comparison, Filter, FoundChunk};

use super::{MAX_QUESTION, MAX_QUESTIONS, Search, SearchBody, best_of, read};
use crate::{body::typed, client_error::ClientError};

fn read_body(body: Value) -> Result<Search, ClientError> {
    read(typed::<SearchBody>(body).unwrap())
}

fn compare(key: &str, comparison: Comparison, value: Value) -> Filter {
    Filter::Compare { key: key.to_owned(), comparison, value }
}

fn chunk(id: &str, text: &str, score: f64) -> FoundChunk {
    let (file_name, attributes) = (format!("{id}.txt"), Map::new());
    FoundChunk { file_id: id.into(), file_name, score, text: text.to_owned(), attributes }
}

#[test]
fn a_search_has_usual_settings() {
    let usual =
        Search { questions: vec!["why".to_owned()], filter: None, most: 10, least_score: 0.0 };
    assert_eq!(read_body(json!({ "query": "why" })), Ok(usual));
    let all = json!({
        "query": ["why", "how"],
        "max_num_results": 3,
        "filters": { "type": "eq", "key": "a", "value": 1 },
        "ranking_options": { "ranker": "auto", "score_threshold": 0.25 },
        "rewrite_query": true,
    });
    let search = Search {
        questions: vec!["why".to_owned(), "how".to_owned()],
        filter: Some(compare("a", Comparison::Equal, json!(1))),
        most: 3,
        least_score: 0.25,
    };
    assert_eq!(read_body(all), Ok(search));
}

/// A13: each limit itself is allowed, one more is not.
#[test]
fn a_search_has_limits() {
    let fits = [
        json!({ "query": "ä".repeat(MAX_QUESTION) }),
        json!({ "query": vec!["a"; MAX_QUESTIONS] }),
        json!({ "query": "a", "max_num_results": 1 }),
        json!({ "query": "a", "max_num_results": 50 }),
        json!({ "query": "a", "ranking_options": { "score_threshold": 0 } }),
        json!({ "query": "a", "ranking_options": { "score_threshold": 1 } }),
    ];
    for body in fits {
        assert!(read_body(body.clone()).is_ok(), "{body}");
    }
    let (most, score) = ("max_num_results", "ranking_options.score_threshold");
    let does_not = [
        (json!({}), "query"),
        (json!({ "query": "" }), "query"),
        (json!({ "query": [] }), "query"),
        (json!({ "query": ["a", ""] }), "query"),
        (json!({ "query": "ä".repeat(MAX_QUESTION + 1) }), "query"),
        (json!({ "query": vec!["a"; MAX_QUESTIONS + 1] }), "query"),
        (json!({ "query": "a", "max_num_results": 0 }), most),
        (json!({ "query": "a", "max_num_results": 51 }), most),
        (json!({ "query": "a", "ranking_options": { "score_threshold": -0.1 } }), score),
        (json!({ "query": "a", "ranking_options": { "score_threshold": 1.1 } }), score),
    ];
    for (body, param) in does_not {
        assert_eq!(read_body(body.clone()).unwrap_err().param.as_deref(), Some(param), "{body}");
    }
}

/// An invalid filter is refused with its path. The filters themselves are tested where they are
/// parsed.
#[test]
fn a_filter_that_makes_no_sense_is_refused_with_its_place() {
    let filters = json!({ "type": "or", "filters": [{ "type": "eq", "key": "a" }] });
    let error = read_body(json!({ "query": "a", "filters": filters })).unwrap_err();
    assert_eq!(error.param.as_deref(), Some("filters.filters[0].value"));
    let words = "`filters.filters[0].value` must be a text, a number, `true` or `false`; for `in` \
                 and `nin` a list of those.";
    assert_eq!((error.message.as_str(), error.code), (words, "invalid_value"));
}

#[test]
fn the_best_of_several_questions_come_once_and_best_first() {
    let found = vec![
        chunk("file_1", "one", 0.5),
        chunk("file_2", "two", 0.3),
        chunk("file_3", "three", 0.9),
        chunk("file_1", "one", 0.7),
        chunk("file_1", "other", 0.4),
    ];
    let search = |most, least_score| Search {
        questions: vec!["why".to_owned()],
        filter: None,
        most,
        least_score,
    };
    let three = chunk("file_3", "three", 0.9);
    let one = chunk("file_1", "one", 0.7);
    assert_eq!(best_of(found.clone(), &search(2, 0.0)), [three.clone(), one.clone()]);
    let other = chunk("file_1", "other", 0.4);
    assert_eq!(best_of(found, &search(10, 0.4)), [three, one, other]);
}
